import { expect } from 'vitest';
import type { Task, TaskShape } from '../task/define-task.ts';
import type { TestKit } from './create-test-kit.ts';
import { matchSent, type SentExpectation } from './match-sent.ts';

expect.extend({
  toHaveSentTask: (kit: TestKit, task: Task, expected?: SentExpectation) =>
    matchSent(kit, task, expected),
});

declare module 'vitest' {
  // Every declaration of an interface has the same parameters: these are vitest's.
  // oxlint-disable-next-line typescript/no-explicit-any
  interface Matchers<T = any> {
    /** `expect(kit).toHaveSentTask(charge, { input: { orderId: '1' }, times: 1 })` */
    toHaveSentTask<S extends TaskShape>(task: Task<S>, expected?: SentExpectation): void;
  }
}
