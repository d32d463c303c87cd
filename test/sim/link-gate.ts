import { Destinations, type Judgement } from '../../src/ledger/destinations.ts';
import { UNSENT_REASONS, type Ledger } from '../../src/ledger/ledger.ts';
import { derivedId } from '../../src/task/digest.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import type { TaskRecord } from '../../src/testing/memory/memory-record.ts';
import type { Faults } from './faults.ts';
import type { SimPlan } from './plan.ts';
import { QUEUES } from './task-plan.ts';

/** Decides whether follow-ups of linked tasks get through. Closed from the start of a troubled run. */
export class LinkGate {
  /** Undefined: follow-ups may go anywhere. */
  readonly destinations: Destinations | undefined;
  readonly #ids: ReadonlySet<string>;
  readonly #faults: Faults;
  readonly #refuses: boolean;
  #isOpen: boolean;

  constructor({ tasks, linkTrouble }: SimPlan, faults: Faults) {
    this.#ids = new Set(
      tasks.filter(({ hasLink }) => hasLink).map(({ id }) => derivedId(id, 'link:0')),
    );
    this.#faults = faults;
    this.#isOpen = linkTrouble === 'none';
    this.#refuses = linkTrouble !== 'forbidden';
    if (linkTrouble === 'forbidden')
      this.destinations = new Rules(envelope => this.#turnsAway(envelope));
  }

  open(): void {
    this.#isOpen = true;
  }

  /** Whether the broker refuses this message. */
  refuses(message: Envelope): boolean {
    return this.#refuses && this.#turnsAway(message);
  }

  /** Follow-ups that were given up and that no operator has revived yet. */
  letters(records: Iterable<TaskRecord>): readonly TaskRecord[] {
    return [...records].filter(
      ({ id, state, why }) =>
        state === 'dead' && this.#ids.has(id) && UNSENT_REASONS.includes(why ?? ''),
    );
  }

  /** The operator's wish. The same letter may be revived by two of them, the second too late: it must be in vain. */
  async revive(ledger: Ledger, { id, version }: Pick<TaskRecord, 'id' | 'version'>): Promise<void> {
    if ((await ledger.revive(id, version)) === 'ok') this.#faults.count('follow-up-revived');
  }

  #turnsAway({ id }: Envelope): boolean {
    const isTurnedAway = !this.#isOpen && this.#ids.has(id);
    if (isTurnedAway) this.#faults.count('follow-up-refused');
    return isTurnedAway;
  }
}

/** The real rules, and one more that an operator can lift. */
class Rules extends Destinations {
  readonly #isForbidden: (envelope: Envelope) => boolean;

  constructor(isForbidden: (envelope: Envelope) => boolean) {
    super({ queues: QUEUES, allowed: [] });
    this.#isForbidden = isForbidden;
  }

  override judge(envelope: Envelope): Judgement {
    if (!this.#isForbidden(envelope)) return super.judge(envelope);
    return { kind: 'refused', destination: `queue ${envelope.queue}`, why: 'the gate is closed' };
  }
}
