import { isKeyId, Keyring, type SigningKey } from '../task/keyring.ts';
import { safeName } from '../task/names.ts';
import type { Env } from './from-env.ts';
import { rangeError } from './options.ts';

const KEYS_ENV = 'OUTLAST_SIGNING_KEYS';
/** Shorter ones are guessed. */
const MIN_SECRET_BYTES = 16;

/** Keys and what is said about them; secrets are in the keyring and nowhere else. */
export interface Signing {
  readonly keyring: Keyring;
  /** The ids, in their order: the first one signs. */
  readonly keyIds: readonly string[];
  readonly keysSource: 'env' | 'file' | 'default';
  readonly unsignedQueues: readonly string[];
  readonly warnings: readonly string[];
}

export function readSigning(config: Readonly<Record<string, unknown>>, env: Env): Signing {
  const text = env[KEYS_ENV] ?? '';
  const isInEnv = text !== '';
  const given = isInEnv ? text.split(',').map(part => part.trim()) : config['signingKeys'];
  const keys = given === undefined ? [] : readKeys(given, isInEnv ? KEYS_ENV : 'signingKeys');
  const unsignedQueues = readQueues(config['unsignedQueues'] ?? []);
  return {
    keyring: new Keyring(keys, unsignedQueues),
    keyIds: keys.map(({ id }) => id),
    keysSource: isInEnv ? 'env' : given === undefined ? 'default' : 'file',
    unsignedQueues,
    warnings:
      keys.length === 0 && unsignedQueues.length > 0
        ? ['`unsignedQueues` is set, and there is no key in `signingKeys`: no queue asks for one']
        : [],
  };
}

function readKeys(value: unknown, option: string): readonly SigningKey[] {
  const hint = `Write id:secret, the secret as hex or base64 of at least ${MIN_SECRET_BYTES} bytes: 2027-01:$(openssl rand -hex 32).`;
  // No error here may quote what was given: it is, or contains, a secret.
  if (!Array.isArray(value)) throw rangeError(option, 'is not a list of keys', hint);
  const keys = value.map((item: unknown, index) => {
    const what = `has a key number ${index + 1} that`;
    if (typeof item !== 'string') throw rangeError(option, `${what} is no text`, hint);
    const at = item.indexOf(':');
    const id = item.slice(0, Math.max(at, 0));
    if (!isKeyId(id))
      throw rangeError(option, `${what} has no id of letters, digits, - and _`, hint);
    const secret = readSecret(item.slice(at + 1));
    if (secret === null)
      throw rangeError(option, `${what} has a secret that is neither hex nor base64`, hint);
    if (secret.length < MIN_SECRET_BYTES)
      throw rangeError(option, `${what} has too short a secret`, hint);
    return { id, secret };
  });
  const twice = keys.find(({ id }, index) => keys.findIndex(key => key.id === id) < index);
  if (twice)
    throw rangeError(option, `has two keys of the id ${twice.id}`, 'Give each an id of its own.');
  return keys;
}

const HEX = /^([0-9a-f]{2})+$/i;
const BASE64 = /^[A-Za-z0-9+/_-]+={0,2}$/;

function readSecret(text: string): Uint8Array | null {
  if (HEX.test(text)) return Buffer.from(text, 'hex');
  return BASE64.test(text) ? Buffer.from(text, 'base64') : null;
}

function readQueues(value: unknown): readonly string[] {
  if (Array.isArray(value))
    return Object.freeze(value.map(name => safeName(name as string, 'queue')));
  throw rangeError(
    'unsignedQueues',
    'is not a list of queues',
    "Write an array of names: ['from-python'].",
  );
}
