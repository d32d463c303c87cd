import type { OptionTable } from './option.ts';

/** At most `limit` in any length of time `per`, and no more than `burst` of them at once. */
export const RATE_TABLE: OptionTable = Object.freeze({
  limit: {
    kind: 'integer',
    min: 1,
    max: 1_000_000_000,
    isRequired: true,
    sentence: 'How many may come in within `per`.',
  },
  per: { kind: 'duration', min: '1ms', isRequired: true, sentence: 'The length of the window.' },
  burst: {
    kind: 'integer',
    min: 1,
    max: 1_000_000_000,
    defaultNote: 'a tenth of the limit, rounded up',
    sentence: 'How many of them may come at once; no more than `limit`.',
  },
});

/** What may be limited, by the configuration or by a task itself. */
export const ADMISSION_RULE_TABLE: OptionTable = Object.freeze({
  rate: {
    kind: 'group',
    members: RATE_TABLE,
    typeName: 'RateOptions',
    typeSentence:
      'At most `limit` in any length of time `per`, and no more than `burst` of them at once.',
    sentence: 'How many may come in.',
  },
  concurrency: {
    kind: 'integer',
    min: 1,
    max: 1_000_000,
    sentence: 'How many may run at the same time.',
  },
});

const KEY_OF_INPUT = "(input: ShapeOf<I, R, A, K>['input']) => string";

/** What a contract says about its task. */
export const TASK_TABLE: OptionTable = Object.freeze({
  input: {
    kind: 'schema',
    type: 'I & JsonOnly<I>',
    sentence:
      "What the task takes: any Standard Schema. An object travels as Celery's kwargs, anything else as the one argument.",
  },
  result: {
    kind: 'schema',
    type: 'R & JsonOnly<R>',
    sentence: 'What the handler returns. Left out, no value is kept and `result()` gives nothing.',
  },
  args: {
    kind: 'schema',
    type: 'A & JsonOnly<A>',
    sentence: 'Positional arguments as a Python task takes them, instead of `input`.',
  },
  kwargs: {
    kind: 'schema',
    type: 'K & JsonOnly<K>',
    sentence: 'Keyword arguments as a Python task takes them, instead of `input`.',
  },
  params: {
    kind: 'list',
    type: 'P',
    resolved: 'readonly string[] | null',
    sentence: 'Names for incoming positional arguments, in their order.',
  },
  version: {
    kind: 'integer',
    default: 1,
    min: 1,
    max: 32_767,
    sentence: "Version of the input's shape.",
  },
  queue: { kind: 'name', default: 'default', sentence: 'Where it waits for a worker.' },
  priority: {
    kind: 'integer',
    default: 0,
    min: 0,
    max: 9,
    sentence: '0 to 9, higher first; at a Redis broker lower first, as with Celery.',
  },
  timeout: { kind: 'duration', sentence: 'An attempt is aborted after this.' },
  softTimeout: { kind: 'duration', sentence: '`ctx.softSignal` fires after this.' },
  expires: { kind: 'duration', sentence: 'Not begun later than this after it was sent.' },
  ordering: {
    kind: 'group',
    members: {
      key: {
        kind: 'function',
        type: KEY_OF_INPUT,
        isRequired: true,
        sentence: 'What tasks must have in common to be kept in order.',
      },
      whenDead: {
        kind: 'choice',
        choices: ['park', 'go-on'],
        default: 'park',
        sentence: 'Whether tasks behind a dead one wait for it or go on.',
      },
    },
    resolved: 'Ordering | null',
    sentence:
      "Tasks with the same key are published in the order of their commits, one at a time. When one of them becomes a dead letter of the relay, the tasks behind it wait until an operator retries or purges it; with `'go-on'` they do not wait.",
  },
  idempotent: {
    kind: 'group',
    orFlag: true,
    members: {
      key: {
        kind: 'function',
        type: KEY_OF_INPUT,
        defaultNote: 'name and input',
        sentence: 'What calls must have in common to be one.',
      },
      ttl: {
        kind: 'duration',
        default: '24h',
        min: '1ms',
        sentence: 'How long the result answers for others.',
      },
    },
    resolved: 'Idempotency | null',
    sentence:
      'Of tasks with the same key one runs; the others wait for it, spend no attempt, and end with its result, which is kept for `ttl`. `true`: the key is made of name and input. The same key with another input is `ERR_IDEMPOTENCY_MISMATCH`.',
  },
  admission: {
    kind: 'group',
    extends: 'AdmissionRuleOptions',
    members: {
      key: {
        kind: 'function',
        type: KEY_OF_INPUT,
        defaultNote: 'all of this task are one',
        sentence: 'What is limited by itself.',
      },
      onReject: {
        kind: 'choice',
        choices: ['throw', 'defer'],
        default: 'throw',
        sentence: 'What `push` does over the rate.',
      },
      onOutage: {
        kind: 'choice',
        choices: ['throw', 'admit'],
        default: 'throw',
        sentence:
          'What `push` does while the store of the limits cannot be asked: it fails, or the task comes in unchecked.',
      },
    },
    resolved: 'ContractAdmission | null',
    sentence:
      "How much of this task may come in, and how many may run at once: for each `key` of the input, or for all together without one. Over the rate `push` and `admit` throw `ERR_ADMISSION_REJECTED`; with `onReject: 'defer'` a push is written to the outbox instead, and is published when the rate allows it. Sent tasks always wait for that.",
  },
  slo: {
    kind: 'group',
    members: {
      success: {
        kind: 'value',
        type: 'number',
        sentence:
          'The share of tasks that end done and not dead or expired: more than 0, less than 1.',
      },
      latency: {
        kind: 'group',
        members: {
          within: {
            kind: 'duration',
            min: '1ms',
            isRequired: true,
            sentence: 'From its creation, or its `eta`, to its end, by the clock of the ledger.',
          },
          target: {
            kind: 'value',
            type: 'number',
            isRequired: true,
            sentence: 'The share of done tasks that take no longer: more than 0, less than 1.',
          },
        },
        sentence: 'How fast it is to be done.',
      },
    },
    resolved: 'Slo | null',
    sentence:
      'What the task promises: `success`, `latency`, or both. The ledger counts what keeps it and what does not, and `outlast slo` tells how fast the rest of the budget is used up.',
  },
  durability: {
    kind: 'choice',
    choices: ['broker', 'end-to-end'],
    default: 'broker',
    sentence:
      "Until when the outbox keeps the task: until the broker has confirmed it, or with `'end-to-end'` until it is over. A broker or ledger that loses all it has then loses no task: it is published again after `relay.receiptTimeout`. With `ordering` the next of a key waits until the one before is over; a dead one parks its key unless `whenDead` says otherwise.",
  },
});
