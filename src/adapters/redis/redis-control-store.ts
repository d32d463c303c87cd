import type {
  Consumer,
  ConsumerReport,
  ControlOrders,
  ControlStore,
} from '../../ledger/control-store.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';

/** Operators' instructions to workers, beside a ledger in Redis: all of them in one hash slot, also on a cluster. */
export class RedisControlStore implements ControlStore {
  readonly #connection: RedisConnection;
  readonly #root: string;

  constructor(connection: RedisConnection, root: string) {
    this.#connection = connection;
    this.#root = root;
  }

  async look({ worker, leaseMs, ...rest }: ConsumerReport): Promise<ControlOrders> {
    const args = [worker, leaseMs, JSON.stringify(rest)];
    const reply = await this.#connection.script(LUA.controlLook, [this.#root], args);
    const [isDraining, paused] = reply as readonly [number, readonly Buffer[]];
    return { paused: paused.map(String).sort(), isDraining: isDraining === 1 };
  }

  async pause(queue: string): Promise<boolean> {
    return (await this.#connection.command('sadd', `${this.#root}paused`, queue)) === 1;
  }

  async resume(queue: string): Promise<boolean> {
    return (await this.#connection.command('srem', `${this.#root}paused`, queue)) === 1;
  }

  async paused(): Promise<readonly string[]> {
    const members = await this.#connection.command('smembers', `${this.#root}paused`);
    return (members as readonly Buffer[]).map(String).sort();
  }

  async consumers(): Promise<readonly Consumer[]> {
    const reply = await this.#connection.script(LUA.controlConsumers, [this.#root], []);
    const [fields, draining] = reply as readonly [readonly Buffer[], readonly Buffer[]];
    const ending = new Set(draining.map(String));
    const found: Consumer[] = [];
    for (let at = 0; at < fields.length; at += 2) {
      const worker = String(fields[at]);
      const row = JSON.parse(String(fields[at + 1])) as Omit<ConsumerReport, 'worker' | 'leaseMs'>;
      found.push({ worker, ...row, isDraining: ending.has(worker) });
    }
    return found.sort((a, b) => (a.worker < b.worker ? -1 : 1));
  }

  async drain(worker: string): Promise<boolean> {
    return (await this.#connection.script(LUA.controlDrain, [this.#root], [worker])) === 1;
  }
}
