import { safeKey } from '../task/names.ts';
import type { Asker, IncomingMessage } from './message.ts';

/** Null: nobody waits, or there is no way to reach them. */
export function askerOf({ headers, properties }: IncomingMessage): Asker | null {
  if (typeof headers !== 'object' || headers === null) return null;
  const own = (name: string): unknown =>
    Object.hasOwn(headers, name) ? (headers as Record<string, unknown>)[name] : undefined;
  const id = key(own('id'));
  if (id === null || own('ignore_result') === true) return null;
  const replyTo = key(properties.replyTo);
  return {
    id,
    correlationId: key(properties.correlationId) ?? id,
    ...(replyTo === null ? {} : { replyTo }),
  };
}

function key(value: unknown): string | null {
  try {
    return typeof value === 'string' ? safeKey(value, 'it') : null;
  } catch {
    return null;
  }
}
