/** A message that a consumer holds. Taking it again gives another grip, and the old one is void. */
export interface Held {
  readonly id: string;
  readonly place: number;
  readonly grip: number;
}

/** What a Redis broker must do, in arrays. The next message to be taken from a list is the first. */
export class RedisBrokerModel {
  /** By queue, then by position. */
  readonly lists: string[][][];
  /** By queue, then by consumer: what it holds, in the order of taking. */
  readonly held: Held[][][];
  /** By queue: consumers whose lease is over. */
  readonly lapsed: Set<number>[];
  #grips = 0;

  constructor(queues: number, consumers: number) {
    this.lists = Array.from({ length: queues }, () => [[], [], [], []]);
    this.held = Array.from({ length: queues }, () => Array.from({ length: consumers }, () => []));
    this.lapsed = Array.from({ length: queues }, () => new Set());
  }

  publish(queue: number, place: number, id: string): void {
    this.lists[queue]?.[place]?.push(id);
  }

  take(consumer: number, queues: readonly number[], limit: number): Held[] {
    const taken: Held[] = [];
    for (const queue of queues) {
      const dead = [...(this.lapsed[queue] ?? [])]
        .sort((a, b) => a - b)
        .filter(other => other !== consumer);
      for (const other of dead) this.release(queue, other);
      const before = taken.length;
      for (const [place, list] of (this.lists[queue] ?? []).entries()) {
        const ids = list.splice(0, limit - taken.length);
        const held = ids.map(id => ({ id, place, grip: this.#grips++ }));
        this.held[queue]?.[consumer]?.push(...held);
        taken.push(...held);
      }
      if (taken.length > before) this.lapsed[queue]?.delete(consumer);
    }
    return taken;
  }

  ack(consumer: number, grips: readonly number[]): void {
    for (const queue of this.held) {
      queue[consumer] = (queue[consumer] ?? []).filter(({ grip }) => !grips.includes(grip));
    }
  }

  giveBack(consumer: number, grips: readonly number[]): void {
    for (const [queue, consumers] of this.held.entries()) {
      const going = (consumers[consumer] ?? []).filter(({ grip }) => grips.includes(grip));
      for (const { id, place } of going.toReversed()) this.lists[queue]?.[place]?.unshift(id);
    }
    this.ack(consumer, grips);
  }

  /** Everything that a consumer holds of a queue returns, and its lease ends. */
  release(queue: number, consumer: number): void {
    const grips = (this.held[queue]?.[consumer] ?? []).map(({ grip }) => grip);
    this.giveBack(consumer, grips);
    this.lapsed[queue]?.delete(consumer);
  }

  /** Only a consumer that holds messages has a lease that can end. */
  lapse(consumer: number): void {
    for (const [queue, consumers] of this.held.entries()) {
      if ((consumers[consumer] ?? []).length > 0) this.lapsed[queue]?.add(consumer);
    }
  }

  /** A heartbeat renews every lease of the consumer and gives back messages that it does not know. */
  beat(consumer: number, known: ReadonlySet<number>): void {
    for (const consumers of this.held) {
      const grips = (consumers[consumer] ?? []).map(({ grip }) => grip);
      const strays = grips.filter(grip => !known.has(grip));
      this.giveBack(consumer, strays);
    }
    for (const lapsed of this.lapsed) lapsed.delete(consumer);
  }
}
