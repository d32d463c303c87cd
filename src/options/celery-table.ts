import type { OptionTable } from './option.ts';

/** What a user may say about the Celery applications at the same broker. */
export const CELERY_TABLE: OptionTable = Object.freeze({
  routes: {
    kind: 'value',
    type: 'CeleryRoutes',
    defaultNote: 'none',
    sentence:
      "Where tasks go that a link, chain or chord of a message names without a queue, and that have no handler here: Celery's `task_routes`, as an object, as pairs, as a function of the name, or as a list of these.",
    more: 'See [routes](celery.md#where-follow-ups-go).',
  },
  defaultQueue: {
    kind: 'name',
    default: 'celery',
    sentence: "Where they go without a route: Celery's `task_default_queue`.",
  },
  chordBackend: {
    kind: 'url',
    defaultNote: 'none',
    sentence:
      "`redis://…`: the Redis that is Celery's `result_backend`, where the ledger is in PostgreSQL beside a broker. Chords of Python's workflows are counted there, because Python's workers look there for how many parts they have, and Python's callers find our results there.",
    more: 'See [workflows](../guides/workflows.md#headers-in-two-languages).',
  },
});
