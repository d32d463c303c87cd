import type { Channel, ChannelModel } from 'amqplib';
import { unavailable } from './rabbitmq-errors.ts';
import { sleep, systemClock } from '../../runtime/runtime.ts';

/** A server that works answers at once. A queue that hangs (its process, or its majority) answers nothing until it is well. */
export const ANSWER_MS = 10_000;
/** A channel that waits for an answer cannot be closed, and a connection has two thousand: no queue may use them up. */
const MOST_UNANSWERED = 3;

/** Channels that were given up and are not closed yet, by what they had asked about. */
const unanswered = new WeakMap<ChannelModel, Map<string, number>>();

/** A new channel for questions about one queue or exchange. */
export async function openChannel(model: ChannelModel, about: string): Promise<Channel> {
  const count = unanswered.get(model)?.get(about) ?? 0;
  if (count >= MOST_UNANSWERED)
    throw unavailable('channel', `RabbitMQ has left ${count} questions about ${about} unanswered`, {
      hint: 'It is asked again when it has answered one. Check the queue, and the node that has it.',
      isPermanent: false,
    });
  const opening = model.createChannel();
  try {
    return await within(ANSWER_MS, opening, 'has opened no channel');
  } catch (error) {
    opening.then(channel => giveUp(model, about, channel)).catch(() => undefined);
    throw error;
  }
}

/** Runs `use` on a separate channel: the server closes it when it refuses something. */
export async function withChannel<T>(
  model: ChannelModel,
  about: string,
  use: (channel: Channel) => Promise<T>,
): Promise<T> {
  const channel = await openChannel(model, about);
  let isOpen = true;
  channel.on('error', () => undefined);
  channel.on('close', () => (isOpen = false));
  try {
    const value = await within(ANSWER_MS, use(channel), `has not answered about ${about}`);
    if (isOpen) await within(ANSWER_MS, channel.close(), 'has closed no channel');
    return value;
  } catch (error) {
    if (isOpen) giveUp(model, about, channel);
    throw error;
  }
}

/** Closes a channel without waiting for it: the server may still be busy with what was asked on it. */
export function giveUp(model: ChannelModel, about: string, channel: Channel): void {
  const counts = unanswered.get(model) ?? new Map<string, number>();
  unanswered.set(model, counts.set(about, (counts.get(about) ?? 0) + 1));
  channel.once('close', () => {
    const left = (counts.get(about) ?? 1) - 1;
    if (left > 0) counts.set(about, left);
    else counts.delete(about);
  });
  const close = async (): Promise<void> => await channel.close();
  // It was closed meanwhile.
  close().catch(() => undefined);
}

/** The result of `answer`; fails after `ms`, and ignores what comes later. */
export function within<T>(ms: number, answer: Promise<T>, what: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = systemClock.timer(ms, () => reject(late(ms, what)));
    answer.then(resolve, reject).finally(cancel);
  });
}

const late = (ms: number, what: string): Error =>
  unavailable('channel', `RabbitMQ ${what} for ${ms} ms`, {
    hint: 'Nothing to do: it is asked again.',
    isPermanent: false,
  });

/** Runs a few functions at a time. One that takes too long gives up its slot to the next, and continues beside it. */
export class FewAtOnce {
  readonly #limitMs: number;
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(slots: number, limitMs: number) {
    this.#free = slots;
    this.#limitMs = limitMs;
  }

  async run<T>(fn: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>(resolve => void this.#waiting.push(resolve));
    const running = fn();
    const ended = new AbortController();
    const end = (): void => ended.abort();
    running.then(end, end);
    void sleep(systemClock, this.#limitMs, ended.signal).then(() => this.#leave());
    return await running;
  }

  #leave(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#free += 1;
  }
}
