import { derivedId } from '../../src/task/digest.ts';
import type { Checker } from './checker.ts';
import type { Faults } from './faults.ts';
import type { SimPlan } from './plan.ts';
import type { Stores } from './stores.ts';
import { CHILD_PLAN, type TaskKind, type TaskPlan } from './task-plan.ts';

/** Those that can only be buried. */
const BAD: ReadonlySet<TaskKind> = new Set(['poison', 'pill', 'unroutable', 'raw', 'unstorable']);

interface Expectation {
  readonly kind: TaskKind;
  readonly mayExpire: boolean;
}

/** What really happened, as recorded by the stores and the handlers, and what must have come of it in the end. */
export class Truth {
  executions = 0;
  reruns = 0;
  readonly #plans: ReadonlyMap<string, TaskPlan>;
  readonly #stores: Stores;
  readonly #checker: Checker;
  readonly #faults: Faults;
  readonly #committed = new Map<string, Expectation>();
  readonly #cancelled = new Set<string>();
  readonly #executed = new Set<string>();
  readonly #impostors = new Map<string, readonly string[]>();

  constructor(plan: SimPlan, stores: Stores, checker: Checker, faults: Faults) {
    this.#plans = new Map(plan.tasks.map(one => [one.id, one]));
    this.#stores = stores;
    this.#checker = checker;
    this.#faults = faults;
  }

  get committed(): number {
    return this.#committed.size;
  }

  planOf(id: string): TaskPlan {
    return this.#plans.get(id) ?? CHILD_PLAN;
  }

  /** Called inside the commit itself: this is the truth about it, also when the answer is lost. */
  onCommitted(id: string, kind: TaskKind): void {
    this.#committed.set(id, { kind, mayExpire: this.planOf(id).expiresMs !== null });
  }

  /** Two messages came under one id: one of these digests runs, the other must be kept as a dead letter. */
  onDigestConflict(id: string, digests: readonly string[]): void {
    this.#impostors.set(id, digests);
  }

  onCancelled(id: string): void {
    this.#cancelled.add(id);
  }

  onExecuted(id: string): void {
    this.executions += 1;
    if (this.#executed.has(id)) this.reruns += 1;
    this.#executed.add(id);
  }

  onPill(): void {
    this.#faults.count('poison-pill');
  }

  /** Follow-ups of a parent that is done are as good as committed. */
  expectLinks(): void {
    for (const [id, plan] of this.#plans) {
      if (plan.hasLink && this.#checker.isCommitted(id))
        this.onCommitted(derivedId(id, 'link:0'), 'ok');
    }
  }

  /** The task of a slot is committed with the slot. */
  expectSlots(): void {
    for (const id of this.#stores.slots.sent) this.onCommitted(id, 'ok');
  }

  isQuiet(): boolean {
    this.expectLinks();
    this.expectSlots();
    if (!this.#stores.slots.isQuiet) return false;
    const { outbox, server, ledger } = this.#stores;
    const { queued, held } = server.count();
    if (outbox.rows.size + queued + held + ledger.state.after.size > 0) return false;
    if (this.#stores.links.letters(ledger.state.records.values()).length > 0) return false;
    return [...this.#committed.keys()].every(id => this.#endingOf(id) !== null);
  }

  /** The final check, when faults have ended and the time to recover is over. */
  judge(): void {
    this.expectLinks();
    this.expectSlots();
    this.#stores.slots.judge();
    for (const [id, expectation] of this.#committed) this.#judgeTask(id, expectation);
    for (const id of this.#executed) {
      if (!this.#committed.has(id))
        this.#checker.report('phantom', `${id} ran, but was never committed`);
    }
    this.#judgeDigestConflicts();
    this.#judgeKeys();
    this.#judgeTotals();
    const { queued, held } = this.#stores.server.count();
    if (queued + held > 0)
      this.#checker.report(
        'stuck',
        `${queued} copies are queued and ${held} held without a living consumer`,
      );
    if (this.#stores.ledger.state.after.size > 0)
      this.#checker.report('stuck', 'follow-ups were never sent');
  }

  /** A task that ran and is done has left its result for the others. One that discarded itself has left nothing. */
  #judgeKeys(): void {
    const doers = new Map<string, string>();
    for (const [id, { key, kind }] of this.#plans) {
      if (key === null || kind === 'discards' || !this.#executed.has(id)) continue;
      if (this.#endingOf(id) !== 'done') continue;
      const other = doers.get(key);
      if (other !== undefined)
        this.#checker.report('double-run', `${id} ran, and ${other} too: both have the key ${key}`);
      doers.set(key, id);
    }
  }

  /** Each commit is counted in its own step: once, however often it was repeated. */
  #judgeTotals(): void {
    const counted = this.#stores.ledger.state.tallies
      .totals()
      .reduce((sum, { counts }) => sum + (counts.done ?? 0) + (counts.discarded ?? 0), 0);
    const { commits } = this.#checker;
    if (counted !== commits)
      this.#checker.report('unbalanced', `${commits} commits are counted as ${counted}`);
  }

  #judgeDigestConflicts(): void {
    for (const [id, digests] of this.#impostors) {
      // Workers and the ledger append different suffixes to the id of such letters; the digest identifies the message.
      const letters = [...this.#stores.ledger.state.records.values()].filter(
        ({ id: letter, state }) => state === 'dead' && letter.startsWith(`${id}#`),
      );
      const dead = digests.filter(digest =>
        letters.some(({ envelope }) => envelope?.digest === digest),
      ).length;
      // A tombstone left before anything arrived knows no bytes, so it turns both away.
      if (dead === 1 || (dead === 0 && this.#cancelled.has(id))) continue;
      this.#checker.report('lost', `${dead} of the two messages under ${id} are dead letters`);
    }
  }

  #judgeTask(id: string, expectation: Expectation): void {
    const ending = this.#endingOf(id);
    if (ending === null) return this.#reportMissing(id, expectation.kind);
    const isDeadAtRelay = this.#stores.outbox.deadLetters.has(id);
    if (isDeadAtRelay && ending === 'done')
      this.#checker.report('unbalanced', `${id} is done and a dead letter`);
    const allowed = this.#allowedEndings(id, expectation);
    if (!allowed.includes(ending))
      this.#checker.report('wrong-ending', `${id} (${expectation.kind}) ended ${ending}`);
  }

  #reportMissing(id: string, kind: TaskKind): void {
    const { ledger, outbox, server } = this.#stores;
    const record = ledger.state.records.get(id);
    if (record !== undefined) {
      this.#checker.report(
        'stuck',
        `${id} is ${record.state} under ${record.worker || 'nobody'}, epoch ${record.epoch}`,
      );
    } else if ([...outbox.rows.values()].some(row => row.envelope.id === id)) {
      this.#checker.report('stuck', `${id} is still in the outbox`);
    } else if (server.holds(id) || (kind === 'raw' && server.count().held > 0)) {
      this.#checker.report('stuck', `${id} is still in the broker`);
    } else {
      this.#checker.report('lost', `${id} was committed and is nowhere`);
    }
  }

  #allowedEndings(id: string, { kind, mayExpire }: Expectation): string[] {
    const allowed = [BAD.has(kind) ? 'dead' : 'done'];
    if (mayExpire || this.#cancelled.has(id)) allowed.push('cancelled');
    return allowed;
  }

  #endingOf(id: string): 'done' | 'dead' | 'cancelled' | null {
    const { ledger, outbox } = this.#stores;
    const state = ledger.state.records.get(id)?.state;
    if (state === 'done' || state === 'dead' || state === 'cancelled') return state;
    if (outbox.deadLetters.has(id) || this.#stores.guilt.isBuried(id)) return 'dead';
    // Its tombstone may have been forgotten since; the journal has not.
    return state === undefined && this.#checker.isCommitted(id) ? 'done' : null;
  }
}
