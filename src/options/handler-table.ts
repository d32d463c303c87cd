import type { OptionTable } from './option.ts';

/** How failed attempts are repeated. */
export const RETRY_TABLE: OptionTable = Object.freeze({
  maxAttempts: {
    kind: 'integer',
    default: 5,
    min: 1,
    max: 1_000_000,
    sentence: 'Runs in all before the task is dead.',
  },
  backoff: {
    kind: 'duration',
    default: '1s',
    sentence: 'Wait after the first failure; doubles each time.',
  },
  maxBackoff: { kind: 'duration', default: '1h', sentence: 'The longest wait.' },
  jitter: {
    kind: 'choice',
    choices: ['none', 'tenth', 'full'],
    default: 'full',
    sentence:
      '`full` draws from the whole span, so that what failed together does not return together.',
  },
  retryIf: {
    kind: 'function',
    type: '(error: unknown) => boolean',
    defaultNote: 'always',
    sentence: 'False: this error is not worth another attempt.',
  },
});

/** What the code of a task says about its runs. */
export const HANDLER_TABLE: OptionTable = Object.freeze({
  mode: {
    kind: 'choice',
    choices: ['inline', 'thread', 'process'],
    default: 'inline',
    typeName: 'HandlerMode',
    typeSentence:
      "Where a handler runs. `inline`: in the worker's own event loop. `thread`: in a thread of its own, for work that keeps a processor busy. `process`: in a process of its own, which may die without harm to its neighbours. A hard timeout ends the last two, whatever they do.",
    sentence:
      'Where the handler runs; `thread` and `process` need it to be exported by a module named in `tasks`.',
  },
  fence: {
    kind: 'choice',
    choices: ['start', 'door'],
    default: 'door',
    typeName: 'FenceTime',
    typeSentence: 'When a run fences off those before it.',
    sentence:
      'When earlier runs of the task are fenced off in your database: `start`, before the handler runs, or `door`, by its first `ctx.transaction`. Where the ledger is the same database every run is fenced when it begins.',
  },
  maxResurrections: {
    kind: 'integer',
    default: 5,
    min: 0,
    max: 1_000,
    sentence:
      'How often the task may lose its worker, or its own thread or process, before it is dead.',
  },
  retry: {
    kind: 'group',
    members: RETRY_TABLE,
    typeName: 'RetryOptions',
    typeSentence: 'How failed attempts are repeated.',
    sentence: 'How failed attempts are repeated.',
  },
  migrations: {
    kind: 'value',
    type: 'Readonly<Record<number, (old: never) => unknown>>',
    resolved: 'ReadonlyMap<number, (old: unknown) => unknown>',
    sentence: 'Steps that turn the input of version n into version n + 1.',
  },
  checkpoint: {
    kind: 'schema',
    type: 'StandardSchema<C, C>',
    sentence: 'Types and checks `ctx.checkpoint` and `ctx.lastCheckpoint`.',
  },
  onSoftTimeout: {
    kind: 'function',
    type: '(ctx: TaskContext<S, Tx, C>) => void | Promise<void>',
    resolved: '((ctx: TaskContext) => void | Promise<void>) | null',
    sentence: 'Called when the soft timeout passes; shares the context of the run that goes on.',
  },
  run: {
    kind: 'function',
    type: 'HandlerFunction<S, Tx, C>',
    resolved: '(input: unknown, ctx: TaskContext) => unknown',
    isRequired: true,
    sentence: 'Returning is done, throwing is a failed attempt, verdicts are values.',
  },
});
