import type { OptionTable } from './option.ts';

/** What a user may say about the resurrector. */
export const RESURRECTOR_TABLE: OptionTable = Object.freeze({
  interval: {
    kind: 'duration',
    default: '500ms',
    min: '10ms',
    max: '1h',
    sentence: 'Time between two looks for dead processes.',
  },
  batchSize: {
    kind: 'integer',
    default: 500,
    min: 1,
    max: 10_000,
    sentence: 'Tasks of a dead process brought back by one statement.',
  },
  afterDelay: {
    kind: 'duration',
    default: '5s',
    min: '0s',
    max: '1h',
    sentence: 'Age at which unfinished follow-up work of an ended task is done again.',
  },
  unknownTaskTimeout: {
    kind: 'duration',
    default: '15m',
    min: '1s',
    max: '365d',
    sentence:
      'How long a task waits for a worker that has a handler for it, before it is a dead letter.',
  },
});
