import { readFileSync } from 'node:fs';
import type { Cluster, Redis, RedisOptions } from 'ioredis';
import { maskUrl } from '../../errors/mask-secrets.ts';
import { rangeError } from '../../config/options.ts';
import { backoffMs } from '../../runtime/backoff.ts';
import { type RedisRole, replyCodeOf, translateRedisError } from './redis-errors.ts';
import { type RedisTarget, type RedisTlsFiles, parseRedisUrl } from './redis-url.ts';
import { outlastError } from '../../errors/error.ts';

/** Arguments and replies are bytes: an element of a queue need not be text. */
export type RedisArgument = string | number | Uint8Array;

export interface RedisConnectionOptions {
  readonly url: string;
  readonly role: RedisRole['is'];
  /** Shown by CLIENT LIST. */
  readonly name: string;
}

const CONNECT_TIMEOUT_MS = 5_000;
// A server that does not answer for this long is gone, whatever TCP reports. Blocking commands block for much less.
const SILENCE_MS = 10_000;
/** A sentinel that does not answer: the next one is asked, while the first caller still waits. */
const SENTINEL_SILENCE_MS = 2_000;
const RECONNECT = { baseMs: 50, maxMs: 2_000, jitter: 'full' } as const;

/**
 * A connection to a Redis: a server, the primary that sentinels name, or a cluster.
 *
 * A command is sent once or not at all. By default the driver resends commands that had no reply when the connection
 * broke, so a script would run twice; and it queues commands while a server is away, and runs them after the caller gave
 * up.
 */
export class RedisConnection {
  readonly isCluster: boolean;
  /** The number of the database. */
  readonly db: number;
  readonly #module: IoredisModule;
  readonly #target: RedisTarget;
  readonly #options: RedisConnectionOptions;
  readonly #role: RedisRole;
  readonly #client: Redis | Cluster;
  /** The driver reports why a connection failed only by an event; commands only fail with "retries spent". */
  #trouble: Error | null = null;
  /** The error is from an earlier attempt to connect: a new one replaces it. */
  #isOld = false;
  #isClosed = false;
  #isGathering = false;
  /** One wait, shared by all commands issued before the connection is up. */
  #readying: Promise<void> | null = null;

  private constructor(module: IoredisModule, options: RedisConnectionOptions) {
    this.#module = module;
    this.#options = options;
    this.#role = { is: options.role, maskedUrl: maskUrl(options.url) };
    this.#target = parseRedisUrl(options.url, options.role);
    this.isCluster = this.#target.kind === 'cluster';
    this.db = this.#target.db;
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

  /** Another connection to the same target, for a blocking command. */
  another(): RedisConnection {
    return new RedisConnection(this.#module, this.#options);
  }

  /** Calls `fn` on every new connection: the server may have forgotten what was sent before. */
  onConnected(fn: () => void): void {
    this.#client.on('ready', fn);
  }

  /** Calls `fn` whenever a connection was made or lost. */
  onChanged(fn: () => void): void {
    this.#client.on('ready', fn).on('close', fn);
  }

  /** Calls `fn` with messages published to channels that this connection subscribes to. */
  onMessage(fn: (message: Uint8Array) => void): void {
    this.#client.on('messageBuffer', (_channel: Buffer, message: Buffer) => fn(message));
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
   * Calls `fn` for every message on matching channels, for a connection that does nothing else. The driver resubscribes
   * after a reconnect; messages published in between are lost.
   */
  async subscribe(pattern: string, fn: () => void): Promise<void> {
    this.#client.on('pmessage', (matched: string) => {
      if (matched === pattern) fn();
    });
    await this.#use(client => client.psubscribe(pattern));
  }

  /** Closes at once: commands without a reply fail. */
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
   * Commands of one tick are sent together: a write for each would cost both ends a system call, and the server a turn
   * of its loop.
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
   * The driver gives up for good when sentinels announce a new primary while it is connecting: subscribers and later
   * callers would never reconnect.
   */
  #beginAnew(): void {
    setTimeout(() => {
      const isOver = this.#client.status === 'end' && !this.#isClosed;
      if (isOver) this.#client.connect().catch(() => undefined);
    }, RECONNECT.baseMs).unref();
  }

  /** Waits for the current or next attempt to connect, not for later ones. */
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
   * The driver only emits an event for a missing database and continues in database 0: tasks would be written where no
   * worker looks. Ending the connection in this same turn prevents any command from being sent.
   */
  #onTrouble(error: Error): void {
    // The server's error is more useful than "connection ended", which it caused.
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
          sentinelCommandTimeout: SENTINEL_SILENCE_MS,
          // A replaced primary accepts writes until it learns of it, and they are lost: leave it at once.
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

/** These options make the driver send a command once or not at all. */
const ONCE = {
  lazyConnect: true,
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  retryStrategy: reconnectAfterMs,
  sentinelRetryStrategy: reconnectAfterMs,
  // The server became a replica: look for the primary again. The command is not repeated.
  reconnectOnError: (error: Error): boolean => error.message.startsWith('READONLY'),
};

/** The same for a cluster: commands that a node refused before running them (moved, try again) are still redirected. */
const CLUSTER_ONCE = {
  lazyConnect: true,
  // Without the queue, a second command would fail while its node is being connected; that attempt bounds the wait.
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

/** Copies nothing: the driver accepts a Buffer, but no other byte arrays. */
function toArgument(value: RedisArgument): string | number | Buffer {
  if (!(value instanceof Uint8Array) || Buffer.isBuffer(value)) return value;
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}

type IoredisModule = Pick<typeof import('ioredis'), 'Redis' | 'Cluster'>;

/** The driver is an optional peer dependency: it is loaded only when Redis is used. */
async function loadIoredis(): Promise<IoredisModule> {
  try {
    return await import('ioredis');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    const install = 'npm i ioredis';
    throw outlastError('ERR_DRIVER_MISSING', {
      message: 'the Redis driver `ioredis` is not installed',
      hint: `Run: ${install}`,
      fields: { install },
      cause: error,
    });
  }
}

/** An embedded script of `lua/`: one atomic step. */
export interface LuaScript {
  readonly sha: string;
  readonly text: string;
}

/**
 * Runs a script by its hash. A server that does not know it (restarted, flushed, failed over) refuses before running
 * anything, so it is sent the text; every other error goes to the caller, because the script may have run.
 */
async function runScript(
  client: Redis | Cluster,
  script: LuaScript,
  keys: readonly string[],
  args: readonly (string | number | Buffer)[],
): Promise<unknown> {
  try {
    return await client.callBuffer('evalsha', script.sha, keys.length, ...keys, ...args);
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
    return await client.callBuffer('eval', script.text, keys.length, ...keys, ...args);
  }
}
