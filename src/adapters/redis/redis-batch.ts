import type { Envelope } from '../../task/envelope.ts';
import type { Rank } from './redis-keys.ts';
import { Column, PackedBytes, type Packable, type Packer } from './redis-pack.ts';
import { isInline, putDigest } from './redis-record.ts';

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
