import { envIn, rowOf } from '../options/option.ts';
import { TOP_LEVEL_TABLE } from '../options/top-level-table.ts';
import { type Duration, durationMs } from '../task/duration.ts';
import { Keyring, type SigningKey, isKeyId } from '../task/keyring.ts';
import { safeKey, safeName } from '../task/names.ts';
import type { Env } from './from-env.ts';
import { rangeError, shown } from './options.ts';

/** Shorter ones can be guessed. */
const MIN_SECRET_BYTES = 16;

/** Tombstones of cancelled and purged tasks stay for a day: no message may be valid for longer than this row allows. */
const MAX_AGE = rowOf(TOP_LEVEL_TABLE, 'signatureMaxAge', 'duration');

/** Task names by queue; a name may be a prefix that ends in `*`. */
export type UnsignedQueues = Readonly<Record<string, readonly string[]>>;

/** The signing keys and their settings; only the keyring has the secrets. */
export interface Signing {
  readonly keyring: Keyring;
  /** The ids, in their order: the first one signs. */
  readonly keyIds: readonly string[];
  readonly keysSource: 'env' | 'file' | 'default';
  readonly unsignedQueues: UnsignedQueues;
  readonly maxAge: Duration;
  readonly audience: string;
  readonly warnings: readonly string[];
}

type Given = Readonly<Record<string, unknown>>;

export function readSigning(config: Given, env: Env): Signing {
  const text = takenKeys(env);
  const isInEnv = text !== '';
  const given = isInEnv ? text.split(',').map(part => part.trim()) : config['signingKeys'];
  const keys = given === undefined ? [] : readKeys(given, isInEnv ? KEYS_ENV : 'signingKeys');
  const unsignedQueues = readUnsigned(config['unsignedQueues'] ?? {});
  const [maxAge, maxAgeMs] = readMaxAge(config['signatureMaxAge']);
  const audience = readAudience(config['signingAudience']);
  const isWithheld = keys.length === 0 && (env[WITHHELD_ENV] ?? '') !== '';
  return {
    keyring: new Keyring(keys, { unsignedQueues, maxAgeMs, audience, isWithheld }),
    keyIds: keys.map(({ id }) => id),
    keysSource: isInEnv ? 'env' : given === undefined ? 'default' : 'file',
    unsignedQueues,
    maxAge,
    audience,
    warnings: warningsOf(keys.length > 0 || isWithheld, unsignedQueues),
  };
}

function warningsOf(isSigning: boolean, unsigned: UnsignedQueues): readonly string[] {
  if (!isSigning)
    return Object.keys(unsigned).length > 0
      ? ['`unsignedQueues` is set, and there is no key in `signingKeys`: no queue asks for one']
      : [];
  return Object.entries(unsigned)
    .filter(([, names]) => names.includes('*'))
    .map(
      ([queue]) =>
        `\`unsignedQueues\` allows every task on ${queue}: who writes to that queue may run any of them`,
    );
}

function readMaxAge(value: unknown = MAX_AGE.default): readonly [Duration, number] {
  const { min = '0ms', max = '0ms' } = MAX_AGE;
  const ms = durationMs(value as Duration, 'signatureMaxAge');
  if (ms >= durationMs(min, 'min') && ms <= durationMs(max, 'max')) return [value as Duration, ms];
  throw rangeError('signatureMaxAge', `is ${shown(value)}`, `Use '${min}' to '${max}'.`);
}

function readAudience(value: unknown): string {
  if (value === undefined) return '';
  if (typeof value === 'string') return value === '' ? '' : safeKey(value, 'signingAudience');
  throw rangeError('signingAudience', `is ${shown(value)}`, "Use a name: 'production'.");
}

function readKeys(value: unknown, option: string): readonly SigningKey[] {
  const hint = `Write id:secret, the secret as hex or base64 of at least ${MIN_SECRET_BYTES} bytes: 2027-01:$(openssl rand -hex 32).`;
  // No error here may quote the value: it is, or contains, a secret.
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

function readUnsigned(value: unknown): UnsignedQueues {
  const hint = "Write the tasks that may come to each queue: { 'from-python': ['report.*'] }.";
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw rangeError('unsignedQueues', 'does not say which tasks its queues allow', hint);
  const queues = Object.entries(value as Record<string, unknown>).map(([queue, names]) => {
    const option = `unsignedQueues['${safeName(queue, 'queue')}']`;
    if (!Array.isArray(names)) throw rangeError(option, 'is not a list of task names', hint);
    return [queue, Object.freeze(names.map(name => readPattern(name, option, hint)))] as const;
  });
  return Object.freeze(Object.fromEntries(queues));
}

/** Only a prefix is allowed, so that people too can see at a glance which names match. */
function readPattern(name: unknown, option: string, hint: string): string {
  if (typeof name !== 'string') throw rangeError(option, `has ${shown(name)}`, hint);
  const fixed = name.endsWith('*') ? name.slice(0, -1) : name;
  if (fixed !== '' || name === '') safeName(fixed, 'task name');
  return name;
}

/** Keys, as `id:secret,id:secret`. */
const KEYS_ENV: string = envIn(TOP_LEVEL_TABLE, 'signingKeys');
/** Tells a process of ours that there are keys which it was not given. */
const WITHHELD_ENV = 'OUTLAST_SIGNING_KEYS_WITHHELD';

/** Empty: there are none, or they are still in the environment. */
let taken = '';

/**
 * Removes the keys from the environment of a process that runs handlers: child processes would inherit them, and error
 * reporters would send them away. Only this module has them afterwards.
 */
export function takeKeys(env: Record<string, string | undefined>): void {
  const text = env[KEYS_ENV] ?? '';
  if (text === '') return;
  taken = text;
  delete env[KEYS_ENV];
  // Another copy of this package in the process would otherwise send unsigned tasks without an error.
  env[WITHHELD_ENV] = '1';
}

/** The keys in this environment, or the ones that were removed from it. */
function takenKeys(env: Env): string {
  return env[KEYS_ENV] ?? (env === process.env ? taken : '');
}

/** The environment for a thread or process that runs handlers: with the keys, or with a mark that there are some. */
export function envForHandlers(
  env: Readonly<Record<string, string | undefined>>,
  hasKeys: boolean,
): Record<string, string | undefined> {
  const text = takenKeys(env);
  const { [KEYS_ENV]: _keys, [WITHHELD_ENV]: _withheld, ...others } = env;
  if (text === '') return others;
  return hasKeys ? { ...others, [KEYS_ENV]: text } : { ...others, [WITHHELD_ENV]: '1' };
}
