import { readFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import type { ChannelModel, SocketOptions } from 'amqplib';
import type { RabbitHost } from '../../config/amqp-url.ts';
import { type BackoffPolicy, backoffMs } from '../../runtime/backoff.ts';
import { sleep, systemClock } from '../../runtime/runtime.ts';
import { connectFailure, lost, unavailable } from './rabbitmq-errors.ts';
import { readDeliveries } from './frame-reader.ts';
import { setImmediate as afterReading } from 'node:timers/promises';
import { outlastError } from '../../errors/error.ts';

/** Reconnecting at once to a restarting server only fills its log; a longer wait than this helps no caller. */
const RECONNECT: BackoffPolicy = { baseMs: 200, maxMs: 3_000, jitter: 'full' };
/** How long a clean close may take before the socket is destroyed. */
const CLOSE_MS = 2_000;

/** One open connection. After a loss there is another one, with its own channels. */
export interface OpenLink {
  readonly model: ChannelModel;
  /** Why the server accepts nothing at the moment (memory or disk alarm), or null. */
  readonly blocked: () => string | null;
  /** Resolves when it accepts messages again, or is gone. */
  readonly unblocked: () => Promise<void>;
  /** Resolves when the connection is gone. */
  readonly gone: Promise<void>;
  /** What ended it, if the server gave a reason. */
  readonly reason: () => unknown;
  /** Counts messages that await a confirm; ends a connection that the server does not read from. */
  readonly pulse: LinkPulse;
}

export interface LinkEvents {
  /** The server has stopped accepting messages, or accepts them again (null). */
  readonly onBlocked: (reason: string | null) => void;
}

/**
 * A connection that is opened by the first call of `open`, and again by the first one after a loss.
 *
 *   closed ──open()──► opening ──► open ──lost──► closed, the next opening waits a little
 */
export class RabbitLink {
  readonly #hosts: readonly RabbitHost[];
  readonly #purpose: string;
  readonly #events: LinkEvents;
  readonly #closing = new AbortController();
  #opening: Promise<OpenLink> | null = null;
  #next = 0;
  #failures = 0;

  constructor(hosts: readonly RabbitHost[], purpose: string, events: LinkEvents) {
    this.#hosts = hosts;
    this.#purpose = purpose;
    this.#events = events;
    // Processes that restart together do not all start with the same server.
    this.#next = Math.floor(Math.random() * hosts.length);
  }

  /** The open connection; callers that ask while it is being opened share it. */
  open(): Promise<OpenLink> {
    this.#opening ??= this.#openOnce();
    return this.#opening;
  }

  async #openOnce(): Promise<OpenLink> {
    try {
      if (this.#failures > 0) {
        const waitMs = backoffMs(RECONNECT, this.#failures - 1, 0.5 + Math.random() / 2);
        await sleep(systemClock, waitMs, this.#closing.signal);
      }
      const link = this.#watch(await this.#connectAny());
      this.#failures = 0;
      return link;
    } catch (error) {
      this.#failures++;
      this.#forget();
      throw error;
    }
  }

  async #connectAny(): Promise<ChannelModel> {
    let failure: unknown;
    for (let tried = 0; tried < this.#hosts.length; tried++) {
      if (this.#closing.signal.aborted) throw lost('connection', new Error('it was closed here'));
      const host = this.#hosts[this.#next % this.#hosts.length] as RabbitHost;
      try {
        return await this.#connect(host);
      } catch (error) {
        this.#next++;
        failure ??= connectFailure(error, host);
      }
    }
    throw failure;
  }

  async #connect(host: RabbitHost): Promise<ChannelModel> {
    const { connect } = await loadAmqplib();
    const { hostname: name, port, username, password } = host;
    const model = await connect(
      {
        protocol: host.isTls ? 'amqps' : 'amqp',
        hostname: name,
        port,
        username,
        password,
        // amqplib takes this as it is written in a URL.
        vhost: encodeURIComponent(host.vhost),
        heartbeat: host.heartbeatSeconds,
      },
      {
        noDelay: true,
        keepAlive: true,
        timeout: host.connectTimeoutMs,
        clientProperties: {
          connection_name: `outlast ${this.#purpose} ${process.pid}@${hostname()}`,
        },
        ...(host.isTls ? await tlsOptions(host) : {}),
      },
    );
    readDeliveries(model.connection);
    return model;
  }

  #watch(model: ChannelModel): OpenLink {
    let blocked: string | null = null;
    let reason: unknown;
    const waiting: (() => void)[] = [];
    const tellBlocked = (why: string | null): void => {
      blocked = why;
      this.#events.onBlocked(why);
      if (why === null) for (const wake of waiting.splice(0)) wake();
    };
    const unblocked = (): Promise<void> =>
      blocked === null ? Promise.resolve() : new Promise(resolve => void waiting.push(resolve));
    model.on('blocked', why => tellBlocked(why));
    model.on('unblocked', () => tellBlocked(null));
    // Without a listener an error would end the process; `close` follows it.
    model.on('error', error => (reason = error));
    const pulse = new LinkPulse({
      model,
      isBlocked: () => blocked !== null,
      abandon: error => destroySocket(model, error),
    });
    const gone = new Promise<void>(resolve => {
      model.on('close', error => {
        reason ??= error;
        pulse.stop();
        if (blocked !== null) tellBlocked(null);
        destroySocket(model);
        // A connection that is lost as soon as it is up must not be reopened a hundred times a second.
        this.#failures = 1;
        this.#forget();
        resolve();
      });
    });
    return { model, blocked: () => blocked, unblocked, gone, reason: () => reason, pulse };
  }

  /** The next call of `open` opens another, unless this link is closed. */
  #forget(): void {
    if (!this.#closing.signal.aborted) this.#opening = null;
  }

  /** Closes cleanly; does not wait long for a server that does not answer. */
  async close(): Promise<void> {
    this.#closing.abort();
    const opening = this.#opening;
    this.#opening = Promise.reject(
      unavailable('connection', 'the connection to RabbitMQ was closed here', {
        hint: 'Create a new one, or close it later.',
        isPermanent: true,
      }),
    );
    this.#opening.catch(() => undefined);
    const link = await opening?.catch(() => null);
    if (!link) return;
    const closed = link.model.close().catch(() => undefined);
    await Promise.race([closed, sleep(systemClock, CLOSE_MS)]);
    destroySocket(link.model);
  }
}

async function tlsOptions(host: RabbitHost): Promise<SocketOptions> {
  const { caFile, certFile, keyFile, serverName } = host;
  return {
    ...(caFile === null ? {} : { ca: [await readFile(caFile)] }),
    ...(certFile === null ? {} : { cert: await readFile(certFile) }),
    ...(keyFile === null ? {} : { key: await readFile(keyFile) }),
    ...(serverName === null ? {} : { servername: serverName }),
  };
}

/** amqplib only ends the stream: a half-open connection would then wait for the kernel to give up. */
function destroySocket(model: ChannelModel, error?: Error): void {
  const { stream } = model.connection as {
    readonly stream?: { destroy?: (error?: Error) => void };
  };
  stream?.destroy?.(error);
}

/** After this long without a confirm, ask the server whether it reads what we write. */
const SILENT_MS = 1_000;
/** How long it may take to answer. Any server that reads answers at once, however busy its disks are. */
const ANSWER_MS = 2_000;
const LOOK_MS = 250;

export interface PulseLink {
  readonly model: Pick<ChannelModel, 'createChannel'>;
  /** An alarm: the server itself reported that it reads nothing, and will report when it does again. */
  readonly isBlocked: () => boolean;
  /** Ends the connection, so that the next publish opens another. */
  readonly abandon: (error: Error) => void;
}

/**
 * Notices that the server has stopped reading from a connection. RabbitMQ limits how far a publisher runs ahead of a
 * queue: with about four hundred messages in flight to a queue that accepts none (its process hangs, a quorum queue has
 * no majority) it stops reading from the whole connection, and every other queue published to on it stalls for as long
 * as that lasts. No alarm is raised, and heartbeats continue.
 *
 *   waiting for confirms ──none for a second──► asked ──an answer──► only queues are slow: waiting
 *                                                 └──none──────────► abandoned; unconfirmed messages are unavailable
 */
class LinkPulse {
  readonly #link: PulseLink;
  #underWay = 0;
  #heardAt = 0;
  #isAsking = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(link: PulseLink) {
    this.#link = link;
  }

  /** A message was written that has to be confirmed. */
  written(): void {
    this.#underWay += 1;
    if (this.#underWay === 1) this.#heardAt = systemClock.monotonic();
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref();
  }

  /** It was answered, or never will be. */
  answered(): void {
    this.#underWay -= 1;
    this.#heardAt = systemClock.monotonic();
  }

  /** The connection is gone. */
  stop(): void {
    clearInterval(this.#timer);
    this.#isAsking = true;
  }

  #look(): void {
    if (this.#underWay === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
      return;
    }
    if (this.#isAsking) return;
    if (this.#link.isBlocked()) this.#heardAt = systemClock.monotonic();
    if (systemClock.monotonic() - this.#heardAt > SILENT_MS) void this.#ask();
  }

  async #ask(): Promise<void> {
    this.#isAsking = true;
    const askedAt = systemClock.monotonic();
    let hasAnswered = false;
    const answering = this.#link.model.createChannel().then(async channel => {
      hasAnswered = true;
      channel.on('error', () => undefined);
      await channel.close();
    });
    answering.catch(() => {
      // The connection is gone, which also counts as an answer.
      hasAnswered = true;
    });
    const isSilent = (): boolean =>
      !hasAnswered && this.#heardAt < askedAt && !this.#link.isBlocked();
    await untilOver(() => !isSilent(), askedAt + ANSWER_MS);
    // First read what arrived while this process stood still, then judge the server.
    await afterReading();
    await afterReading();
    if (isSilent()) {
      const under = `${this.#underWay} messages are not confirmed`;
      this.#link.abandon(new Error(`RabbitMQ reads nothing from this connection; ${under}`));
      return;
    }
    this.#heardAt = systemClock.monotonic();
    this.#isAsking = false;
  }
}

function untilOver(isOver: () => boolean, endsAt: number): Promise<void> {
  return new Promise(resolve => {
    const timer = setInterval(() => {
      if (!isOver() && systemClock.monotonic() < endsAt) return;
      clearInterval(timer);
      resolve();
    }, LOOK_MS).unref();
  });
}

export type Amqplib = Pick<typeof import('amqplib'), 'connect'>;

/** The driver is an optional peer dependency: it is loaded only when RabbitMQ is used. */
async function loadAmqplib(): Promise<Amqplib> {
  try {
    return (await import('amqplib')).default;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    const install = 'npm i amqplib';
    throw outlastError('ERR_DRIVER_MISSING', {
      message: 'RabbitMQ needs the package amqplib.',
      hint: `Run: ${install}`,
      fields: { install },
      cause: error,
    });
  }
}
