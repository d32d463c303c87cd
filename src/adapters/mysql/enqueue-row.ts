import { rowVersionOf, type NewTask } from '../../outbox/outbox-writer.ts';

export type Texts = readonly (string | null)[];

/** The parameters of `enqueue.sql`, in its order. */
export function rowTexts(task: NewTask): Texts {
  const { call, redacted } = task;
  return [
    task.id,
    task.name,
    task.queue,
    String(task.priority),
    base64(call.args),
    base64(call.kwargs),
    base64(task.embed),
    base64(task.settings),
    task.digest,
    String(rowVersionOf(task)),
    String(task.version),
    task.etaMs === null ? null : String(task.etaMs),
    task.expiresMs === null ? null : String(task.expiresMs),
    task.idempotencyKey === null ? null : base64(task.idempotencyKey),
    task.orderingKey === null ? null : base64(task.orderingKey),
    task.parksKey ? '1' : '0',
    redacted === null ? null : base64(redacted.args),
    redacted === null ? null : base64(redacted.kwargs),
  ];
}

const base64 = (text: string): string => Buffer.from(text).toString('base64');
