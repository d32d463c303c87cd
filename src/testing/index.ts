/** Tests of code that sends tasks, and of handlers, without a server. */
export {
  createTestKit,
  type DrainReport,
  type SentTask,
  type TestKit,
  type TestKitOptions,
} from './create-test-kit.ts';
export {
  fakeContext,
  type FakeContext,
  type FakeContextOptions,
  type FakeSent,
} from './fake-context.ts';
export { assertSent, type PartOf, type SentExpectation } from './match-sent.ts';
export type { PerformOptions, PerformOutcome } from './perform.ts';
export type { KitClock } from './kit-time.ts';
export type { KitStep } from './kit-stores.ts';
export type { FaultPointName } from '../runtime/runtime.ts';
