import type {
  AnswerMessage,
  EventMessage,
  Fleet,
  FleetOptions,
  FleetPlace,
  RequestMessage,
  RequestParts,
} from '../../broker/fleet.ts';
import { sleep, systemClock } from '../../runtime/runtime.ts';
import { CONTROL_EXCHANGE, EVENT_EXCHANGE, REPLY_EXCHANGE } from '../../wire/headers.ts';
import { LUA } from './lua.generated.ts';
import { RedisConnection } from './redis-connection.ts';
import { encodeNotice, readParts } from './redis-element.ts';
import { bindingKey, fanoutChannel, matchingBindings } from './redis-keys.ts';
import { parseRedisUrl, type RedisAddress } from './redis-url.ts';

/** Resubscribing checks that the server is still there; much shorter than the silence that ends a connection. */
const RESUBSCRIBE_MS = 2_000;
/** As Celery's `control_queue_ttl`, for answers to a caller that was killed while waiting. */
const ANSWER_TTL_MS = 300_000;

/** Reads the URL and loads the driver. Null: kombu, and so every Celery tool, does not support clusters. */
export async function openRedisFleet(url: string, options: FleetOptions): Promise<Fleet | null> {
  const connection = await RedisConnection.open({ url, role: 'broker', name: options.node });
  return connection.isCluster ? null : new RedisFleet(connection, url, options);
}

/**
 * Celery's events and remote control on Redis, on separate connections: broadcasts are published on a channel, an answer
 * is pushed to the list of the caller.
 */
class RedisFleet implements Fleet {
  readonly place: FleetPlace;
  readonly #connection: RedisConnection;
  readonly #options: FleetOptions;
  readonly #db: number;
  readonly #closing = new AbortController();
  /** What does not work at the moment, and was reported. */
  readonly #troubles = new Set<keyof Fleet>();
  #subscriber: RedisConnection | null = null;

  constructor(connection: RedisConnection, url: string, options: FleetOptions) {
    const { addresses, username, db, tls } = parseRedisUrl(url, 'broker');
    const { host, port } = addresses[0] as RedisAddress;
    this.place = {
      transport: 'redis',
      hostname: host,
      port,
      userid: username ?? null,
      virtualHost: String(db),
      isTls: tls !== null,
    };
    this.#connection = connection;
    this.#options = options;
    this.#db = db;
  }

  async tell(message: EventMessage): Promise<boolean> {
    const channel = fanoutChannel(this.#db, EVENT_EXCHANGE, message.routingKey);
    const element = encodeNotice({ ...message, exchange: EVENT_EXCHANGE });
    return await this.#try('tell', () => this.#connection.command('publish', channel, element));
  }

  async answer(message: AnswerMessage): Promise<void> {
    const bindings = bindingKey(REPLY_EXCHANGE);
    const element = encodeNotice({ ...message, exchange: REPLY_EXCHANGE });
    await this.#try('answer', async () => {
      const members = (await this.#connection.command('smembers', bindings)) as readonly Buffer[];
      const matching = matchingBindings(members.map(String), message.routingKey);
      for (const { member, queue } of matching)
        await this.#connection.script(
          LUA.answer,
          [bindings, queue],
          [member, element, ANSWER_TTL_MS],
        );
    });
  }

  listen(onRequest: (message: RequestMessage) => void): void {
    const subscriber = this.#connection.another();
    this.#subscriber = subscriber;
    subscriber.onMessage(bytes =>
      onRequest({ bytes: bytes.length, read: () => readRequest(bytes) }),
    );
    void this.#keepListening(subscriber);
  }

  close(): Promise<void> {
    this.#closing.abort();
    this.#subscriber?.close();
    this.#connection.close();
    return Promise.resolve();
  }

  /** A restarted server has forgotten its subscribers: every connection resubscribes, and so does every round. */
  async #keepListening(subscriber: RedisConnection): Promise<void> {
    const channel = fanoutChannel(this.#db, CONTROL_EXCHANGE);
    const subscribe = (): Promise<boolean> =>
      this.#try('listen', () => subscriber.command('subscribe', channel));
    subscriber.onConnected(() => void subscribe());
    while (!this.#closing.signal.aborted) {
      await subscribe();
      await sleep(systemClock, RESUBSCRIBE_MS, this.#closing.signal);
    }
  }

  async #try(what: keyof Fleet, step: () => Promise<unknown>): Promise<boolean> {
    try {
      await step();
      this.#troubles.delete(what);
      return true;
    } catch (error) {
      const isNew = !this.#troubles.has(what) && !this.#closing.signal.aborted;
      this.#troubles.add(what);
      if (isNew) this.#options.onTrouble(error);
      return false;
    }
  }
}

function readRequest(bytes: Uint8Array): RequestParts | null {
  const parts = readParts(bytes);
  if (typeof parts === 'string') return null;
  return { headers: parts.element['headers'], body: parts.body };
}
