import { setImmediate as afterReading } from 'node:timers/promises';
import type { ChannelModel } from 'amqplib';
import { systemClock } from '../../runtime/clock.ts';

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
export class LinkPulse {
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
