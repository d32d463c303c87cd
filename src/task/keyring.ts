import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Envelope } from './envelope.ts';
import { readOptions } from './read-options.ts';

/** A secret that producers and workers share, under the name by which messages say which one it was. */
export interface SigningKey {
  readonly id: string;
  readonly secret: Uint8Array;
}

const KEY_ID = /^[A-Za-z0-9_-]{1,64}$/;

export const isKeyId = (text: string): boolean => KEY_ID.test(text);

/**
 * The keys of this process: the first signs, all of them verify, so that a new one can be known everywhere before
 * anybody signs with it. Secrets are private fields: no log, no error and no `console.log` of a config shows them.
 *
 * A signature is `<key id>.<HMAC-SHA-256 of the digest>`; the digest covers name, id, version and body.
 */
export class Keyring {
  readonly #keys: readonly SigningKey[];
  readonly #unsignedQueues: ReadonlySet<string>;

  constructor(keys: readonly SigningKey[], unsignedQueues: readonly string[]) {
    this.#keys = keys;
    this.#unsignedQueues = new Set(unsignedQueues);
  }

  /** Undefined where there is no key: the task travels unsigned. */
  sign(digest: string): string | undefined {
    const [key] = this.#keys;
    return key && `${key.id}.${macOf(key, digest).toString('hex')}`;
  }

  /** Why a task must not be run, or null when it may. Its digest must have been compared with its bytes before. */
  refusalOf({
    queue,
    digest,
    options,
  }: Pick<Envelope, 'queue' | 'digest' | 'options'>): string | null {
    if (this.#keys.length === 0 || this.#unsignedQueues.has(queue)) return null;
    const { signature } = readOptions({ options });
    if (signature === undefined) return `it is not signed, and ${queue} is not in unsignedQueues`;
    const [id = '', mac = ''] = signature.split('.');
    const key = this.#keys.find(known => known.id === id);
    if (!key) return `it is signed with the key ${isKeyId(id) ? id : '?'}, which is not known here`;
    const given = Buffer.from(mac, 'hex');
    const right = macOf(key, digest);
    const isRight = given.length === right.length && timingSafeEqual(given, right);
    return isRight ? null : `its signature is not one of the key ${id}`;
  }
}

/** Nothing is signed, and nothing has to be. */
export const NO_KEYS: Keyring = new Keyring([], []);

const macOf = (key: SigningKey, digest: string): Buffer =>
  createHmac('sha256', key.secret).update(digest).digest();
