import type { OptionTable } from './option.ts';

/** What a user may say about a schedule. */
export const SCHEDULE_TABLE: OptionTable = Object.freeze({
  call: {
    kind: 'value',
    type: 'TaskCall',
    isRequired: true,
    sentence:
      'What is sent for each slot: `nightly.with(input, options)`. `countdown`, `expires` and `deadline` are lengths from the send.',
  },
  cron: {
    kind: 'text',
    sentence:
      'Five fields (minute, hour, day of month, month, day of week), or six with seconds first. Either this or `every`.',
  },
  timeZone: {
    kind: 'text',
    defaultNote: '`UTC`',
    sentence: 'The IANA time zone of `cron`.',
  },
  every: {
    kind: 'duration',
    min: '1s',
    max: '3650d',
    sentence: 'The length between two slots, counted from `start`, else from 1970.',
  },
  start: { kind: 'value', type: 'Date | string', sentence: 'No slot is before this instant.' },
  end: { kind: 'value', type: 'Date | string', sentence: 'No slot is after this instant.' },
  jitter: {
    kind: 'duration',
    default: '0ms',
    max: '1d',
    sentence:
      'Spreads tasks: each begins up to this much after its slot, by an amount that follows from name and slot.',
  },
  grace: {
    kind: 'duration',
    default: '1m',
    min: '1s',
    max: '1h',
    sentence: 'A slot that is seen later than this is late, and `catchUp` decides about it.',
  },
  catchUp: {
    kind: 'choice',
    choices: ['skip', 'one', 'all'],
    default: 'one',
    sentence:
      'What becomes of late slots: none is sent; the newest if no other slot is due; or all, the newest `maxCatchUp` of them.',
  },
  maxCatchUp: {
    kind: 'integer',
    default: 100,
    min: 1,
    max: 1_000,
    sentence: 'Most late slots that `all` sends; older ones are skipped.',
  },
  overlap: {
    kind: 'choice',
    choices: ['allow', 'skip', 'wait'],
    default: 'allow',
    sentence:
      'What becomes of a slot while the task of the one before is not over: it is sent; skipped; or sent when that is over.',
  },
});
