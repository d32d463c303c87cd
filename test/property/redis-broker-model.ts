/** What a Redis broker must do, in arrays. The next element to be taken from a list stands first. */
export class RedisBrokerModel {
  /** By queue, then by place. */
  readonly lists: string[][][];
  /** By queue, then by consumer: what it holds, in the order of taking. */
  readonly held: { readonly id: string; readonly place: number }[][][];
  /** By queue: consumers whose lease is over. */
  readonly lapsed: Set<number>[];

  constructor(queues: number, consumers: number) {
    this.lists = Array.from({ length: queues }, () => [[], [], [], []]);
    this.held = Array.from({ length: queues }, () => Array.from({ length: consumers }, () => []));
    this.lapsed = Array.from({ length: queues }, () => new Set());
  }

  publish(queue: number, place: number, id: string): void {
    this.lists[queue]?.[place]?.push(id);
  }

  take(consumer: number, queues: readonly number[], limit: number): string[] {
    const taken: string[] = [];
    for (const queue of queues) {
      const dead = [...(this.lapsed[queue] ?? [])]
        .sort((a, b) => a - b)
        .filter(other => other !== consumer);
      for (const other of dead) this.release(queue, other);
      const before = taken.length;
      for (const [place, list] of (this.lists[queue] ?? []).entries()) {
        const ids = list.splice(0, limit - taken.length);
        this.held[queue]?.[consumer]?.push(...ids.map(id => ({ id, place })));
        taken.push(...ids);
      }
      if (taken.length > before) this.lapsed[queue]?.delete(consumer);
    }
    return taken;
  }

  ack(consumer: number, ids: readonly string[]): void {
    for (const queue of this.held) {
      queue[consumer] = (queue[consumer] ?? []).filter(({ id }) => !ids.includes(id));
    }
  }

  giveBack(consumer: number, ids: readonly string[]): void {
    for (const [queue, consumers] of this.held.entries()) {
      const going = (consumers[consumer] ?? []).filter(({ id }) => ids.includes(id));
      for (const { id, place } of going.toReversed()) this.lists[queue]?.[place]?.unshift(id);
    }
    this.ack(consumer, ids);
  }

  /** Everything a consumer holds of a queue returns, and its lease ends. */
  release(queue: number, consumer: number): void {
    const ids = (this.held[queue]?.[consumer] ?? []).map(({ id }) => id);
    this.giveBack(consumer, ids);
    this.lapsed[queue]?.delete(consumer);
  }

  /** Only who holds something has a lease that can end. */
  lapse(consumer: number): void {
    for (const [queue, consumers] of this.held.entries()) {
      if ((consumers[consumer] ?? []).length > 0) this.lapsed[queue]?.add(consumer);
    }
  }

  /** A beat renews every lease of the consumer and gives back what it does not know of. */
  beat(consumer: number, known: ReadonlySet<string>): void {
    for (const consumers of this.held) {
      const strays = (consumers[consumer] ?? []).map(({ id }) => id).filter(id => !known.has(id));
      this.giveBack(consumer, strays);
    }
    for (const lapsed of this.lapsed) lapsed.delete(consumer);
  }
}
