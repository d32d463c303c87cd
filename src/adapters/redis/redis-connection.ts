import { readFileSync } from 'node:fs';
import type { Cluster, Redis, RedisOptions } from 'ioredis';
import { maskUrl } from '../../config/database-url.ts';
import { rangeError } from '../../config/options.ts';
import { backoffMs } from '../../runtime/backoff.ts';
import { loadIoredis, type IoredisModule } from './load-ioredis.ts';
import { replyCodeOf, translateRedisError, type RedisRole } from './redis-errors.ts';
import { runScript, type LuaScript } from './redis-script.ts';
import { parseRedisUrl, type RedisTarget, type RedisTlsFiles } from './redis-url.ts';

/** Arguments and replies are bytes: an element of a queue need not be text. */
export type RedisArgument = string | number | Uint8Array;

export interface RedisConnectionOptions {
  readonly url: string;
  readonly role: RedisRole['is'];
  /** Shown by CLIENT LIST. */
  readonly name: string;
}

const CONNECT_TIMEOUT_MS = 5_000;
// A server that answers nothing for this long is gone, whatever TCP believes. Commands that block are told to block for
// much less.
const SILENCE_MS = 10_000;
const RECONNECT = { baseMs: 50, maxMs: 2_000, jitter: 'full' } as const;

/**
 * One way to a Redis: a server, whoever the sentinels name, or a cluster.
 *
 * A command is sent once or not at all. The driver would send again what had no reply when the connection broke, and a
 * script would run twice; and it would keep commands for a server that is away, and run them after the caller gave up.
 */
export class RedisConnection {
  readonly isCluster: boolean;
  readonly #module: IoredisModule;
  readonly #target: RedisTarget;
  readonly #options: RedisConnectionOptions;
  readonly #role: RedisRole;
  readonly #client: Redis | Cluster;
  /** The driver tells why a connection failed only by an event; to commands it says that retries are spent. */
  #trouble: Error | null = null;
  /** The trouble is of an earlier attempt to connect: what comes now is worth more. */
  #isOld = false;
  #isClosed = false;
  #isGathering = false;
  /** One wait for all commands that come before the connection. */
  #readying: Promise<void> | null = null;

  private constructor(module: IoredisModule, options: RedisConnectionOptions) {
    this.#module = module;
    this.#options = options;
    this.#role = { is: options.role, maskedUrl: maskUrl(options.url) };
    this.#target = parseRedisUrl(options.url, options.role);
    this.isCluster = this.#target.kind === 'cluster';
    this.#client = this.#makeClient();
    this.#client.on('error', (error: Error) => this.#onTrouble(error));
    this.#client.on('node error', (error: Error) => this.#onTrouble(error));
    this.#client.on('connecting', () => {
      this.#isOld = true;
    });
    this.#client.on('ready', () => {
      this.#trouble = null;
    });
    this.#client.on('end', () => this.#beginAnew());
  }

  /** Reads the URL and loads the driver; connects with the first command. */
  static async open(options: RedisConnectionOptions): Promise<RedisConnection> {
    return new RedisConnection(await loadIoredis(), options);
  }

  /** A further connection to the same place, for a command that blocks. */
  another(): RedisConnection {
    return new RedisConnection(this.#module, this.#options);
  }

  /** Calls `fn` whenever a connection has been made: what was told to the server before may be forgotten there. */
  onConnected(fn: () => void): void {
    this.#client.on('ready', fn);
  }

  /** Calls `hear` with what is published to channels that this connection subscribes to. */
  onMessage(hear: (message: Uint8Array) => void): void {
    this.#client.on('messageBuffer', (_channel: Buffer, message: Buffer) => hear(message));
  }

  async command(name: string, ...args: readonly RedisArgument[]): Promise<unknown> {
    return await this.#use(client => client.callBuffer(name, ...args.map(toArgument)));
  }

  async script(
    script: LuaScript,
    keys: readonly string[],
    args: readonly RedisArgument[],
  ): Promise<unknown> {
    return await this.#use(client => runScript(client, script, keys, args.map(toArgument)));
  }

  /**
   * Calls `fn` for every message on channels that match, for a connection that does nothing else. The driver subscribes
   * again when it has connected again; what was said meanwhile is lost.
   */
  async subscribe(pattern: string, fn: () => void): Promise<void> {
    this.#client.on('pmessage', (matched: string) => {
      if (matched === pattern) fn();
    });
    await this.#use(client => client.psubscribe(pattern));
  }

  /** At once: commands without a reply fail. */
  close(): void {
    this.#isClosed = true;
    this.#client.disconnect();
  }

  async #use<T>(fn: (client: Redis | Cluster) => Promise<T>): Promise<T> {
    try {
      if (this.#isClosed) throw new Error('the connection was closed');
      if (this.#client.status !== 'ready') await (this.#readying ??= this.#untilReady());
      this.#gather();
      return await fn(this.#client);
    } catch (error) {
      const isReply = replyCodeOf(error) !== null;
      throw translateRedisError(isReply ? error : (this.#trouble ?? error), this.#role);
    }
  }

  /**
   * What is asked in one tick travels together: a write for each would cost both ends a system call, and the server a
   * turn of its loop.
   */
  #gather(): void {
    if (this.#isGathering || this.isCluster) return;
    const { stream } = this.#client as Redis;
    this.#isGathering = true;
    stream.cork();
    process.nextTick(() => {
      this.#isGathering = false;
      stream.uncork();
    });
  }

  /**
   * The driver gives up for good when sentinels tell of a new primary while it is connecting: whoever waits for hints, or
   * asks later, would never hear of it.
   */
  #beginAnew(): void {
    setTimeout(() => {
      const isOver = this.#client.status === 'end' && !this.#isClosed;
      if (isOver) this.#client.connect().catch(() => undefined);
    }, RECONNECT.baseMs).unref();
  }

  /** Waits for the attempt to connect that is under way or comes next, not for those after it. */
  async #untilReady(): Promise<void> {
    const client = this.#client;
    let settle = (): void => undefined;
    const ready = new Promise<void>((resolve, reject) => {
      const failed = (): void => reject(this.#trouble ?? new Error('the connection was closed'));
      const timer = setTimeout(failed, CONNECT_TIMEOUT_MS);
      settle = () => {
        clearTimeout(timer);
        client.off('ready', resolve).off('close', failed).off('end', failed);
      };
      client.on('ready', resolve).on('close', failed).on('end', failed);
    });
    if (client.status === 'wait' || client.status === 'end')
      client.connect().catch(() => undefined);
    await ready.finally(() => {
      settle();
      this.#readying = null;
    });
  }

  /**
   * A database that is not there is only an event to the driver, which goes on in database 0: tasks would be written to
   * where nobody looks. Ending the connection in this very turn keeps every command from being sent.
   */
  #onTrouble(error: Error): void {
    // What the server said tells more than that the connection ended because of it.
    if (this.#isOld || replyCodeOf(this.#trouble) === null) this.#trouble = error;
    this.#isOld = false;
    const isOfDatabase = error.name === 'ReplyError' && /\b(DB index|SELECT)\b/.test(error.message);
    if (isOfDatabase && !this.isCluster) (this.#client as Redis).disconnect(true);
  }

  #makeClient(): Redis | Cluster {
    const { Redis: Single, Cluster: Nodes } = this.#module;
    const { addresses, service, db, kind } = this.#target;
    const options = this.#clientOptions();
    switch (kind) {
      case 'single':
        return new Single({ ...options, ...ONCE, db, ...addresses[0] });
      case 'sentinel':
        return new Single({
          ...options,
          ...ONCE,
          db,
          sentinels: [...addresses],
          name: service,
          // One that was replaced takes writes until it hears of that itself, and they are lost: leave it at once.
          failoverDetector: true,
        });
      case 'cluster':
        return new Nodes([...addresses], { ...CLUSTER_ONCE, redisOptions: options });
    }
  }

  #clientOptions(): ClientOptions {
    const { username, password, tls } = this.#target;
    return {
      ...(username === undefined ? {} : { username }),
      ...(password === undefined ? {} : { password }),
      ...(tls === null ? {} : { tls: readTlsFiles(tls, this.#options.role) }),
      connectionName: this.#options.name,
      connectTimeout: CONNECT_TIMEOUT_MS,
      socketTimeout: SILENCE_MS,
    };
  }
}

type ClientOptions = Pick<
  RedisOptions,
  'username' | 'password' | 'tls' | 'connectionName' | 'connectTimeout' | 'socketTimeout'
>;

/** What makes the driver send a command once or not at all. */
const ONCE = {
  lazyConnect: true,
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  retryStrategy: reconnectAfterMs,
  sentinelRetryStrategy: reconnectAfterMs,
  // The server we reached became a replica: look for the primary again. The command is not repeated.
  reconnectOnError: (error: Error): boolean => error.message.startsWith('READONLY'),
};

/** The same for a cluster: what a node refused before running it (moved, try again) is still sent where it belongs. */
const CLUSTER_ONCE = {
  lazyConnect: true,
  // Without the queue a second command would fail while its node is being connected to; that attempt bounds the wait.
  enableOfflineQueue: true,
  retryDelayOnFailover: 0,
  clusterRetryStrategy: reconnectAfterMs,
};

function reconnectAfterMs(times: number): number {
  return backoffMs(RECONNECT, times - 1, Math.random());
}

function readTlsFiles(files: RedisTlsFiles, option: string): NonNullable<RedisOptions['tls']> {
  const read = (path: string | null): Buffer | undefined => {
    try {
      return path === null ? undefined : readFileSync(path);
    } catch {
      throw rangeError(option, `names the file ${path}, which cannot be read`, 'Check the path.');
    }
  };
  return {
    rejectUnauthorized: true,
    ca: read(files.ca),
    cert: read(files.cert),
    key: read(files.key),
  };
}

/** Copies nothing: the driver takes a Buffer where it does not take other arrays of bytes. */
function toArgument(value: RedisArgument): string | number | Buffer {
  if (!(value instanceof Uint8Array) || Buffer.isBuffer(value)) return value;
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}
