import type { OptionTable } from './option.ts';

/** What a user may say about the broker, where a URL alone does not say enough. */
export const BROKER_TABLE: OptionTable = Object.freeze({
  url: {
    kind: 'url',
    isRequired: true,
    defaultNote: 'none',
    sentence:
      '`amqp://user:password@host:5672/vhost` or `amqps://…`; several hosts as `host1,host2` or as whole URLs with `;` between. `redis://`, `rediss://`, `sentinel://`, `redis+cluster://`.',
    more: 'The variable replaces this URL; the other options stay.',
  },
  queueType: {
    kind: 'choice',
    choices: ['classic', 'quorum'],
    default: 'classic',
    sentence:
      '`classic` or `quorum`: RabbitMQ queues that are not there yet. Those that are stay as they are.',
  },
  exchangeType: {
    kind: 'choice',
    choices: ['auto', 'direct', 'topic'],
    default: 'auto',
    sentence:
      "The exchange that is declared with such a queue, under its name: Celery's `task_default_exchange_type`, or `task_create_missing_queue_exchange_type`. `auto`: `direct`, and none with quorum queues, because Celery may want either there, and declares it itself.",
  },
  delayedDelivery: {
    kind: 'choice',
    choices: ['auto', 'quorum', 'classic', 'off'],
    default: 'auto',
    sentence:
      "Celery's native delayed delivery (5.5 and later): the type of the queues in which messages wait for their `eta`, as `broker_native_delayed_delivery_queue_type`. Workers declare them if they are missing. `auto`: `quorum` with quorum queues, else `off`.",
    more: 'See [quorum queues](celery.md#quorum-queues).',
  },
  maxPriority: {
    kind: 'integer',
    min: 1,
    max: 255,
    defaultNote: 'none',
    sentence:
      "1 to 255: priorities of classic RabbitMQ queues declared here, as Celery's `task_queue_max_priority`.",
  },
  ackOn: {
    kind: 'choice',
    choices: ['commit', 'begin'],
    default: 'commit',
    defaultNote: '; where `ledger` is the same Redis `begin`',
    sentence:
      'When a message is acknowledged. `commit`: when its run is settled, after 10 minutes at the latest; `begin`: as soon as the ledger has the task. Use `begin` where Python workers share the queue and must not see a task again that was begun here.',
  },
  chordQueue: {
    kind: 'name',
    default: 'outlast.chords',
    sentence:
      "The queue on which Python's workers report how the parts of our chords ended, unless the ledger is in their Redis. Use another one for each installation that shares a broker.",
    more: 'See [workflows](../guides/workflows.md#headers-in-two-languages).',
  },
  destinations: {
    kind: 'list',
    type: 'readonly string[]',
    default: [],
    sentence:
      'Where links, chords and `reply_to` of messages may have us write beside what is allowed anyway: names of queues with `*` for any text, of exchanges with `exchange:` in front.',
    more: 'See [what is allowed](celery.md#where-messages-may-have-us-write).',
  },
  replies: {
    kind: 'choice',
    choices: ['on', 'off'],
    default: 'on',
    sentence:
      "Answers to senders that wait for one, as Celery's `rpc://` results; RabbitMQ. Every Celery producer names a queue for them: `off` saves a message for each task where results are kept elsewhere.",
  },
});
