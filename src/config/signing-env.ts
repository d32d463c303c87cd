import { envIn } from '../options/option.ts';
import { TOP_LEVEL_TABLE } from '../options/top-level-table.ts';
import type { Env } from './from-env.ts';

/** Keys, as `id:secret,id:secret`. */
export const KEYS_ENV: string = envIn(TOP_LEVEL_TABLE, 'signingKeys');
/** Tells a process of ours that there are keys which it was not given. */
export const WITHHELD_ENV = 'OUTLAST_SIGNING_KEYS_WITHHELD';

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
export function takenKeys(env: Env): string {
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
