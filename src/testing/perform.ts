import type { Context } from '../context/context.ts';
import type { ErrorRecord } from '../ledger/ledger.ts';
import { ALONE, composeTask } from '../outbox/compose.ts';
import { envelopeOf } from '../outbox/outbox-writer.ts';
import { uuidv7 } from '../runtime/runtime.ts';
import { decodeJson, encodeJson, toBytes, toText } from '../task/json.ts';
import type { Handler } from '../worker/handler.ts';
import type { KitDriver } from './kit-driver.ts';

/** What the run of a handler is told about itself. */
export interface PerformOptions {
  /** Failed runs + 1, as in `ctx.attempt`. @default 1 */
  readonly attempt?: number;
  /** How often the task has lost its worker. @default 0 */
  readonly resurrections?: number;
  /** What the run finds as `ctx.lastCheckpoint`. */
  readonly lastCheckpoint?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** How one run has ended. */
export type PerformOutcome =
  | { readonly state: 'done'; readonly result: unknown }
  | { readonly state: 'discarded'; readonly why: string }
  /** It failed and would run again. */
  | { readonly state: 'retry'; readonly error: ErrorRecord | null; readonly inMs: number }
  /** It would be a dead letter: by `bury`, or because no attempt is left. */
  | { readonly state: 'dead'; readonly why: string; readonly error: ErrorRecord | null }
  /** Its worker died at the point of a `crashAt`. */
  | { readonly state: 'crashed' };

/** One run of a handler, from composing its task to the step that settles it. */
export async function perform(
  driver: KitDriver,
  { config, runtime }: Context,
  handler: Handler,
  given: PerformOptions & { readonly input: unknown },
): Promise<PerformOutcome> {
  const { attempt = 1, resurrections: crashes = 0, lastCheckpoint, headers = {} } = given;
  const { keyring, maxPayloadBytes } = config;
  const nowMs = runtime.clock.now();
  const call = { task: handler.task, input: given.input, options: { headers } };
  const newId = (): string => uuidv7(nowMs);
  const deps = { nowMs, newId, maxPayloadBytes, keyring, redact: null, parent: null };
  const envelope = envelopeOf(await composeTask(call, ALONE, deps));
  const data = lastCheckpoint === undefined ? null : toBytes(encodeJson(lastCheckpoint));
  const checkpoint = data === null ? null : { epoch: 0, seq: 1, data };
  const before = { failures: attempt - 1, crashes, checkpoint };
  const record = await driver.perform(handler, envelope, before);
  const { ending, result, why, error } = record;
  if (ending === 'done')
    return { state: 'done', result: result === null ? undefined : decodeJson(toText(result)) };
  if (ending === 'discarded') return { state: 'discarded', why: why ?? '' };
  if (ending !== null) return { state: 'dead', why: why ?? ending, error };
  if (record.crashes > crashes) return { state: 'crashed' };
  const last = record.history.findLast(entry => entry.error !== undefined);
  return { state: 'retry', error: last?.error ?? null, inMs: record.dueMs - runtime.clock.now() };
}
