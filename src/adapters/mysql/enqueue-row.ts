import { rowVersionOf, type NewTask } from '../../outbox/outbox-writer.ts';

export type Texts = readonly (string | null)[];

/** The parameters of `enqueue.sql`, in its order. */
export function rowTexts(task: NewTask): Texts {
  const { envelope, call, redacted } = task;
  return [
    envelope.id,
    envelope.name,
    envelope.queue,
    String(envelope.priority),
    base64(call.args),
    base64(call.kwargs),
    base64(task.embed),
    base64(envelope.options),
    envelope.digest,
    String(rowVersionOf(task)),
    String(envelope.version),
    envelope.etaMs === null ? null : String(envelope.etaMs),
    envelope.expiresMs === null ? null : String(envelope.expiresMs),
    task.idempotencyKey === null ? null : base64(task.idempotencyKey),
    task.orderingKey === null ? null : base64(task.orderingKey),
    task.parksKey ? '1' : '0',
    redacted === null ? null : base64(redacted.args),
    redacted === null ? null : base64(redacted.kwargs),
  ];
}

const base64 = (data: string | Uint8Array): string =>
  Buffer.from(data as Uint8Array).toString('base64');
