import { AssertionError } from 'node:assert';
import { inspect, isDeepStrictEqual } from 'node:util';
import type { Task, TaskShape } from '../task/define-task.ts';
import type { TestKit } from './create-test-kit.ts';

/** Any part of a value. */
export type PartOf<T> = T extends readonly unknown[]
  ? T
  : T extends object
    ? { readonly [K in keyof T]?: PartOf<T[K]> }
    : T;

/** What must have been sent. */
export interface SentExpectation<Input = unknown> {
  /** A part of the input. @default any input */
  readonly input?: PartOf<Input>;
  /** How many such tasks were sent. @default at least one */
  readonly times?: number;
}

export interface Match {
  readonly pass: boolean;
  readonly message: () => string;
}

/** Compares what was sent with what is expected; the message has both. */
export function matchSent<S extends TaskShape>(
  kit: Pick<TestKit, 'sent'>,
  task: Task<S>,
  expected: SentExpectation<S['input']> = {},
): Match {
  const sent = kit.sent(task);
  const matching = sent.filter(({ input }) => isPart(expected.input, input)).length;
  const { times } = expected;
  const pass = times === undefined ? matching > 0 : matching === times;
  const wanted = `${times ?? 'at least one'} ${task.name}`;
  const about = expected.input === undefined ? '' : ` with ${inspect(expected.input)}`;
  return {
    pass,
    message: () =>
      `expected${pass ? ' other than' : ''} ${wanted}${about}, and ${matching} of ${sent.length} sent match: ` +
      inspect(
        sent.map(({ input }) => input),
        { depth: 6 },
      ),
  };
}

/**
 * Throws unless such a task was sent.
 *
 * @example
 * assertSent(kit, charge, { input: { orderId: '1' }, times: 1 });
 */
export function assertSent<S extends TaskShape>(
  kit: Pick<TestKit, 'sent'>,
  task: Task<S>,
  expected: SentExpectation<S['input']> = {},
): void {
  const { pass, message } = matchSent(kit, task, expected);
  if (!pass) throw new AssertionError({ message: message(), stackStartFn: assertSent });
}

function isPart(expected: unknown, found: unknown): boolean {
  if (expected === undefined) return true;
  // Such as `expect.any(String)`.
  if (hasMatch(expected)) return expected.asymmetricMatch(found);
  if (!isObject(expected) || !isObject(found)) return isDeepStrictEqual(expected, found);
  return Object.entries(expected).every(
    ([key, value]) => Object.hasOwn(found, key) && isPart(value, found[key]),
  );
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const hasMatch = (value: unknown): value is { asymmetricMatch(found: unknown): boolean } =>
  isObject(value) && typeof value['asymmetricMatch'] === 'function';
