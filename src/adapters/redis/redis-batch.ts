import type { Envelope } from '../../task/envelope.ts';
import type { Rank } from './redis-keys.ts';
import { Column, type Packable, PackedBytes, type Packer, pack } from './redis-pack.ts';
import { isInline, putDigest } from './redis-record.ts';
import { BATCH_BYTES } from '../../ledger/batch-limits.ts';
import { slicesWithin } from '../../runtime/wakeable.ts';
import { outlastError } from '../../errors/error.ts';
import type { TaskRef } from '../../ledger/ledger.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';
import { isWrongType, replyCodeOf } from './redis-errors.ts';
import { readRef } from './redis-replies.ts';

/**
 * Tasks of one kind share name, queue, priority and version. Most batches are of one kind: these members of the record
 * are packed once, and a script reads them once.
 */
export class Kinds {
  readonly first: Envelope[] = [];
  readonly #numbers = new Map<string, number>();
  #last = 0;

  /** The number of its kind, from 1. */
  numberOf(envelope: Envelope): number {
    const last = this.first[this.#last - 1];
    if (last === undefined || !isSame(last, envelope)) this.#last = this.#find(envelope);
    return this.#last;
  }

  #find(envelope: Envelope): number {
    const { name, queue, priority, version } = envelope;
    const key = JSON.stringify([name, queue, priority, version]);
    const known = this.#numbers.get(key);
    if (known !== undefined) return known;
    this.#numbers.set(key, this.first.push(envelope));
    return this.first.length;
  }
}

const isSame = (one: Envelope, other: Envelope): boolean =>
  one.name === other.name &&
  one.queue === other.queue &&
  one.priority === other.priority &&
  one.version === other.version;

/** The members NAME to VERSION of a record. */
export const membersOfKind = (
  { name, queue, priority, version }: Envelope,
  rank: Rank,
): PackedBytes => new PackedBytes([name, queue, rank(priority), version]);

/** A list with an entry for each of them; empty when none has a value. */
export function sparse<T>(
  items: readonly T[],
  valueOf: (item: T) => Packable,
): readonly Packable[] {
  const values = items.map(valueOf);
  return values.every(value => value === false) ? [] : values;
}

/** A list of their ids. */
export const idsOf = (envelopes: readonly Envelope[]): Column =>
  new Column(envelopes.length, (packer, index) => packer.put((envelopes[index] as Envelope).id));

/** Messages in the format of `begin`: shared values once, and per message what a record keeps, packed as it is stored. */
export function packMessages(
  messages: readonly Envelope[],
  tags: readonly string[],
  rank: Rank,
): Packable[] {
  const kinds = new Kinds();
  const kindOf = messages.map(message => kinds.numberOf(message));
  return [
    kinds.first.map(kind => [kind.name, kind.queue, membersOfKind(kind, rank)]),
    idsOf(messages),
    kindOf,
    new Column(messages.length, (packer, index) => putKept(packer, messages[index] as Envelope)),
    sparse(messages, ({ expiresMs }) => expiresMs ?? false),
    sparse(messages, message => !isInline(message) && message.body),
    tags,
    sparse(messages, ({ etaMs }) => etaMs ?? false),
  ];
}

/** The members DIGEST to BODY of a record. */
function putKept(packer: Packer, message: Envelope): void {
  const head = packer.open();
  putDigest(packer, message);
  packer.put(message.etaMs ?? false);
  packer.put(message.expiresMs ?? false);
  packer.put(message.options);
  packer.put(isInline(message) && message.body);
  packer.close(head);
}

/** Tasks checked in each list: as many as one `begin` may have met. */
const LOOKED_AT = 1_500;
/** Each isolates at least one record; if more are needed, something else is wrong. */
const MOST_ROUNDS = 20;

/** The tasks of a step, beside those run by closed incarnations and those set aside. */
export interface StepScope {
  readonly ids?: readonly string[];
  readonly queues?: readonly string[];
}

/**
 * Runs a step. If the server refuses it because a foreign client has written to a record, that record becomes a dead
 * letter and the step is repeated. The refused step has written nothing, because scripts decide everything before they
 * write. A step that is not refused pays nothing for this.
 */
export async function withIsolation<T>(
  connection: RedisConnection,
  root: string,
  scope: StepScope,
  step: (isolated: readonly TaskRef[]) => Promise<T>,
): Promise<T> {
  const isolated: TaskRef[] = [];
  for (let round = 1; ; round++) {
    try {
      return await step(isolated);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      const found = await isolateRecords(connection, root, scope);
      isolated.push(...found);
      if (found.length === 0 || round === MOST_ROUNDS) throw asOutage(error);
    }
  }
}

/** Turns the records in this scope that no step can read into dead letters. */
export async function isolateRecords(
  connection: RedisConnection,
  root: string,
  { ids = [], queues = [] }: StepScope,
): Promise<readonly TaskRef[]> {
  const args = [pack(ids), pack(queues), LOOKED_AT];
  const reply = await connection.script(LUA.ledgerIsolate, [root], args);
  return (reply as readonly (readonly [Buffer, Buffer, Buffer])[]).map(readRef);
}

/** The first part of an item is the id, or the message that starts with it. */
export function idOf(parts: Packable): string {
  const [first] = parts as readonly Packable[];
  return typeof first === 'string' ? first : idOf(first as Packable);
}

/** An error of a script that met something it cannot use. */
function isRefusal(error: unknown): boolean {
  return replyCodeOf(error) === 'ERR' || isWrongType(error);
}

/** A key that is not a record but a list of them: only an operator can decide what should be there. */
function asOutage(error: unknown): unknown {
  if (!isWrongType(error)) return error;
  return outlastError('ERR_STORE_UNAVAILABLE', {
    message: `a key of the ledger holds what is not ours: ${(error as Error).message}`,
    hint: 'Look for it with TYPE under the prefix outlast: (sorted sets, hashes and strings are ours); rename or delete it.',
    fields: {},
    cause: error,
  });
}

/** Items of one call: a script blocks the server while it runs, and they must fit on Lua's stack. */
export const CHUNK = 500;

/** Cut to the size of one call. */
export const sliced = <T>(
  items: readonly T[],
  bytesOf: (item: T) => number,
): readonly (readonly T[])[] => slicesWithin(items, { count: CHUNK, bytes: BATCH_BYTES, bytesOf });
