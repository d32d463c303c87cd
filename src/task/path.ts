import type { Envelope } from './envelope.ts';
import { toBytes, toText } from './json.ts';

/** The task with the moments at which a relay claimed and published it, for people. */
export function withPath(envelope: Envelope, claimedMs: number, publishedMs: number): Envelope {
  const path = `"path":"${Math.floor(claimedMs)}.${Math.floor(publishedMs)}"`;
  const rest = toText(envelope.options).slice(1);
  const options = toBytes(`{${path}${rest === '}' ? '' : ','}${rest}`);
  return { ...envelope, options };
}
