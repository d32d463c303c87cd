import { readFileSync } from 'node:fs';

/** One message as real Celery published it. */
export interface CeleryMessage {
  readonly exchange: string;
  readonly routing_key: string;
  readonly properties: Readonly<Record<string, string | number>>;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly content_header_hex: string;
  readonly body?: string;
  readonly body_base64?: string;
}

export interface CeleryVector {
  readonly name: string;
  readonly call: string;
  readonly declares?: readonly Readonly<Record<string, unknown>>[];
  readonly messages: readonly CeleryMessage[];
}

const read = (file: string): readonly CeleryVector[] => {
  const url = new URL(`../vectors/celery/${file}`, import.meta.url);
  return (JSON.parse(readFileSync(url, 'utf8')) as { vectors: CeleryVector[] }).vectors;
};

export const CELERY_52: readonly CeleryVector[] = read('publish-amqp.json');
export const CELERY_56: readonly CeleryVector[] = read('publish-amqp-5.6.json');

/** The first message of a case. */
export function celeryMessage(name: string, vectors = CELERY_52): CeleryMessage {
  const message = vectors.find(vector => vector.name === name)?.messages[0];
  if (message === undefined) throw new Error(`no vector is called ${name}`);
  return message;
}

export function bodyOf({ body, body_base64: base64 }: CeleryMessage): Uint8Array {
  return new Uint8Array(
    base64 === undefined ? Buffer.from(body ?? '') : Buffer.from(base64, 'base64'),
  );
}
