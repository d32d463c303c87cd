import { createHash } from 'node:crypto';
import type { Envelope } from './envelope.ts';

/** Lengths go in front, so that no two lists of parts give the same bytes. */
function hash(parts: readonly (string | Uint8Array)[]): string {
  const sum = createHash('sha256');
  for (const part of parts) {
    const bytes = typeof part === 'string' ? Buffer.from(part, 'utf8') : part;
    sum.update(`${bytes.length}:`).update(bytes);
  }
  return sum.digest('hex');
}

/** Covers what a task is: name, id, version and the exact bytes of its body. */
export function digestOf(envelope: Pick<Envelope, 'name' | 'id' | 'version' | 'body'>): string {
  return hash([envelope.name, envelope.id, String(envelope.version), envelope.body]);
}

/** The same for two sends of the same task with the same input, whatever their ids. */
export function fingerprintOf(name: string, version: number, args: string, kwargs: string): string {
  return hash([name, String(version), args, kwargs]);
}

/** An id for a follow-up: the same parent and position give the same id, so a repeat is a copy and not a new task. */
export function derivedId(parentId: string, position: string): string {
  const hex = hash([parentId, position]);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
