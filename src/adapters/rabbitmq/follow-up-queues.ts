import { systemClock } from '../../runtime/runtime.ts';
import { FewAtOnce, within } from './with-channel.ts';
import type { OpenLink } from './rabbitmq-link.ts';
import { type QueueShape, ensureQueue } from './topology.ts';

/** A declared queue is assumed to exist for this long; if it is deleted, it is declared again after that. */
const KNOWN_FOR_MS = 60_000;
const MOST_KNOWN = 10_000;
/** Messages wait for this: no longer than a destination may take before it counts as silent. */
const PATIENCE_MS = 1_500;

interface Declared {
  readonly at: number;
  readonly ending: Promise<void>;
}

/**
 * Declares queues that our own application names for follow-ups of its messages: the worker that sends there later has only
 * the message, and declares nothing. Each is declared at most once a minute, so that most messages do not wait.
 */
export class FollowUpQueues {
  readonly #shape: QueueShape;
  readonly #few = new FewAtOnce(8, 2_000);
  #link: OpenLink | null = null;
  readonly #declared = new Map<string, Declared>();

  constructor(shape: QueueShape) {
    this.#shape = shape;
  }

  /**
   * Resolves when they exist, or cannot be declared, or the server does not answer. Never rejects: without a queue, a
   * follow-up waits until a worker of that queue has declared it.
   */
  async declare(link: OpenLink, queues: readonly string[]): Promise<void> {
    if (this.#link !== link || this.#declared.size > MOST_KNOWN) this.#declared.clear();
    this.#link = link;
    const endings = Promise.all(queues.map(queue => this.#once(link, queue)));
    await within(PATIENCE_MS, endings, 'has not declared a queue').catch(() => undefined);
  }

  #once(link: OpenLink, queue: string): Promise<void> {
    const now = systemClock.monotonic();
    const known = this.#declared.get(queue);
    if (known !== undefined && now - known.at < KNOWN_FOR_MS) return known.ending;
    const ending = this.#few
      .run(() => ensureQueue(link.model, queue, this.#shape))
      .catch(() => undefined);
    this.#declared.set(queue, { at: now, ending });
    return ending;
  }
}
