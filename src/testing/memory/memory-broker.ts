import type { Broker, Delivery, PublishOutcome, UndecodableMessage } from '../../broker/broker.ts';
import type { Envelope } from '../../task/envelope.ts';
import type { MemoryLedger } from './memory-ledger.ts';
import { copyEnvelope } from './memory-record.ts';

interface QueuedMessage {
  /** Order of arrival. A message that returns keeps it, so it comes before all that arrived later. */
  readonly seq: number;
  readonly priority: number;
  readonly queue: string;
  readonly message: Envelope | UndecodableMessage;
}

export interface MemoryBrokerOptions {
  /** Why the broker refuses a message, or null. */
  readonly refuse?: (message: Envelope) => string | null;
  /** False is a known mistake: a popped message is then only in the consumer's memory. */
  readonly holdsUntilAck?: boolean;
}

/** A message broker in RAM that behaves like RabbitMQ. Each process has its own connection. */
export class MemoryBroker {
  readonly #queues = new Map<string, QueuedMessage[]>();
  readonly #held = new Map<MemoryBrokerConnection, Map<string, QueuedMessage>>();
  readonly #hints = new Set<() => void>();
  readonly #refuse: (message: Envelope) => string | null;
  readonly #holdsUntilAck: boolean;
  #seq = 0;
  #tags = 0;

  constructor(options: MemoryBrokerOptions = {}) {
    this.#refuse = options.refuse ?? (() => null);
    this.#holdsUntilAck = options.holdsUntilAck ?? true;
  }

  subscribe(hint: () => void): () => void {
    this.#hints.add(hint);
    return () => void this.#hints.delete(hint);
  }

  connect(): MemoryBrokerConnection {
    const connection = new MemoryBrokerConnection(this);
    this.#held.set(connection, new Map());
    return connection;
  }

  /** The connection is gone: all its messages return to their positions. Its tags are void. */
  disconnect(connection: MemoryBrokerConnection): void {
    for (const message of this.#held.get(connection)?.values() ?? []) this.#enqueue(message);
    this.#held.delete(connection);
  }

  accept(message: Envelope): PublishOutcome {
    const error = this.#refuse(message);
    if (error !== null) return { status: 'refused', error };
    const { priority, queue } = message;
    this.#enqueue({ seq: ++this.#seq, priority, queue, message: copyEnvelope(message) });
    return { status: 'confirmed' };
  }

  /** An unreadable message of a foreign producer. */
  acceptRaw(message: UndecodableMessage): void {
    this.#enqueue({ seq: ++this.#seq, priority: 0, queue: message.queue, message });
  }

  hand(connection: MemoryBrokerConnection, queues: readonly string[], limit: number): Delivery[] {
    const held = this.#held.get(connection);
    const deliveries: Delivery[] = [];
    if (held === undefined) return deliveries;
    for (const queue of queues) {
      for (const message of this.#queues.get(queue)?.splice(0, limit - deliveries.length) ?? []) {
        const tag = String(++this.#tags);
        if (this.#holdsUntilAck) held.set(tag, message);
        deliveries.push({ tag, message: message.message });
      }
    }
    return deliveries;
  }

  forget(connection: MemoryBrokerConnection, tags: readonly string[]): void {
    for (const tag of tags) this.#held.get(connection)?.delete(tag);
  }

  requeue(connection: MemoryBrokerConnection, tags: readonly string[]): void {
    const held = this.#held.get(connection);
    for (const tag of tags) {
      const message = held?.get(tag);
      if (message === undefined) continue;
      held?.delete(tag);
      this.#enqueue(message);
    }
  }

  /** Drops messages, queued and held, as a server does that has lost its memory; for tests. */
  lose(isLost: (message: Envelope) => boolean): number {
    let count = 0;
    const isKept = ({ message }: QueuedMessage): boolean => {
      const isGone = 'id' in message && isLost(message);
      if (isGone) count += 1;
      return !isGone;
    };
    for (const [name, queue] of this.#queues) this.#queues.set(name, queue.filter(isKept));
    for (const held of this.#held.values()) {
      for (const [tag, message] of held) if (!isKept(message)) held.delete(tag);
    }
    return count;
  }

  /** Whether a copy of this task is queued or held; for tests. */
  holds(id: string): boolean {
    const isCopy = ({ message }: QueuedMessage): boolean => 'id' in message && message.id === id;
    const held = [...this.#held.values()].flatMap(messages => [...messages.values()]);
    return held.some(isCopy) || [...this.#queues.values()].some(queue => queue.some(isCopy));
  }

  /** Messages queued and held; for tests. */
  count(): { readonly queued: number; readonly held: number } {
    const sum = (sizes: number[]): number => sizes.reduce((total, size) => total + size, 0);
    return {
      queued: sum([...this.#queues.values()].map(queue => queue.length)),
      held: sum([...this.#held.values()].map(held => held.size)),
    };
  }

  #enqueue(message: QueuedMessage): void {
    const queue = this.#queues.get(message.queue) ?? [];
    this.#queues.set(message.queue, queue);
    const isAfter = (other: QueuedMessage): boolean =>
      other.priority < message.priority ||
      (other.priority === message.priority && other.seq > message.seq);
    const index = queue.findIndex(isAfter);
    queue.splice(index === -1 ? queue.length : index, 0, message);
    for (const hint of this.#hints) hint();
  }
}

/** One consumer's connection. It owns its tags, as a channel does. */
export class MemoryBrokerConnection implements Broker {
  readonly hasQueues = true;
  readonly #broker: MemoryBroker;

  constructor(broker: MemoryBroker) {
    this.#broker = broker;
  }

  async publish(messages: readonly Envelope[]): Promise<readonly PublishOutcome[]> {
    return messages.map(message => this.#broker.accept(message));
  }

  async take(queues: readonly string[], limit: number): Promise<readonly Delivery[]> {
    return this.#broker.hand(this, queues, limit);
  }

  async ack(deliveries: readonly Delivery[]): Promise<void> {
    this.#broker.forget(
      this,
      deliveries.map(({ tag }) => tag),
    );
  }

  async giveBack(deliveries: readonly Delivery[]): Promise<void> {
    this.#broker.requeue(
      this,
      deliveries.map(({ tag }) => tag),
    );
  }

  onReady(_queues: readonly string[], hint: () => void): () => void {
    return this.#broker.subscribe(hint);
  }

  async close(): Promise<void> {
    this.#broker.disconnect(this);
  }
}

/** Stands in for a broker: a published message becomes a ledger record at once. */
export function ledgerBroker(ledger: Pick<MemoryLedger, 'receive'>): Broker {
  return {
    publish: async messages =>
      messages.map(message => {
        ledger.receive(message);
        return { status: 'confirmed' };
      }),
    take: async () => [],
    ack: async () => undefined,
    giveBack: async () => undefined,
    onReady: () => () => undefined,
    close: async () => undefined,
  };
}
