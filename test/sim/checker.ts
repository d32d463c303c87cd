import type { EffectEntry } from '../../src/testing/memory/memory-effects.ts';
import type { SettleEntry } from '../../src/testing/memory/memory-outbox-store.ts';
import type { JournalEntry } from '../../src/testing/memory/memory-record.ts';

const VIOLATIONS = [
  'lost',
  'stuck',
  'phantom',
  'stale-commit',
  'double-commit',
  'double-effect',
  'double-run',
  'stale-effect',
  'false-death',
  'foreign-settle',
  'rose-again',
  'fence-twice',
  'too-early',
  'wrong-ending',
  'unbalanced',
  'busy',
  'crowded',
  'broke',
  'slot-twice',
  'slot-missed',
  'slot-unowed',
  'slot-early',
  'overlapped',
] as const;
export type ViolationKind = (typeof VIOLATIONS)[number];

export interface Violation {
  readonly kind: ViolationKind;
  readonly what: string;
}

/** What the order of the store shows for one task. */
interface TaskWord {
  maxEpoch: number;
  commits: number;
  isTerminal: boolean;
}

/**
 * Reads the journal of the stores while they write it. Each task is judged alone: what is true of every task by itself
 * is true of all of them, and histories are short.
 */
export class Checker {
  readonly violations: Violation[] = [];
  readonly #words = new Map<string, TaskWord>();
  readonly #effects = new Map<string, number>();
  readonly #etas = new Map<string, number>();
  #commits = 0;

  get commits(): number {
    return this.#commits;
  }

  report(kind: ViolationKind, what: string): void {
    this.violations.push({ kind, what });
  }

  /** It must not begin before this time of the store's clock. */
  expectEta(id: string, etaMs: number): void {
    this.#etas.set(id, etaMs);
  }

  isCommitted(id: string): boolean {
    return (this.#words.get(id)?.commits ?? 0) > 0;
  }

  readonly onLedger = (entry: JournalEntry): void => {
    if (entry.step === 'condemn') return this.#onCondemn(entry);
    if (entry.id === '') return;
    const word = this.#words.get(entry.id) ?? { maxEpoch: 0, commits: 0, isTerminal: false };
    this.#words.set(entry.id, word);
    switch (entry.step) {
      case 'begin':
        this.#onBegin(entry, word);
        break;
      case 'commit':
        this.#onCommit(entry, word);
        break;
      case 'reap':
        if (word.isTerminal)
          this.report('rose-again', `${entry.id} was over and is ${entry.state} after a reap`);
        break;
      default:
    }
    if (entry.step !== 'prune') word.isTerminal = entry.step !== 'revive' && isTerminal(entry);
  };

  readonly onSettle = (entry: SettleEntry): void => {
    if (entry.owner === entry.token) return;
    this.report(
      'foreign-settle',
      `${entry.step} of ${entry.id} by ${entry.token}, but it is ${entry.owner}'s`,
    );
  };

  readonly onEffect = (entry: EffectEntry): void => {
    const key = `${entry.id}/${entry.step}`;
    const times = (this.#effects.get(key) ?? 0) + 1;
    this.#effects.set(key, times);
    if (times > 1) this.report('double-effect', `${key} took effect ${times} times`);
    const { maxEpoch = 0 } = this.#words.get(entry.id) ?? {};
    if (entry.epoch < maxEpoch) {
      this.report(
        'stale-effect',
        `${key} took effect under epoch ${entry.epoch} after ${maxEpoch} had begun`,
      );
    }
  };

  #onCondemn(entry: JournalEntry): void {
    const { cause, deadlineMs, atMs, worker } = entry;
    if (cause !== 'expired' || deadlineMs === null || deadlineMs < atMs) return;
    this.report('false-death', `${worker} was closed ${deadlineMs - atMs} ms before its deadline`);
  }

  #onBegin(entry: JournalEntry, word: TaskWord): void {
    const earlyMs = (this.#etas.get(entry.id) ?? 0) - entry.atMs;
    if (earlyMs > 0) this.report('too-early', `${entry.id} began ${earlyMs} ms before its eta`);
    if (word.isTerminal) this.report('rose-again', `${entry.id} was over and began again`);
    else if (entry.epoch <= word.maxEpoch)
      this.report('fence-twice', `${entry.id} began under ${entry.epoch} after ${word.maxEpoch}`);
    word.maxEpoch = Math.max(word.maxEpoch, entry.epoch);
  }

  #onCommit(entry: JournalEntry, word: TaskWord): void {
    this.#commits += 1;
    word.commits += 1;
    if (entry.epoch < word.maxEpoch) {
      this.report(
        'stale-commit',
        `${entry.id} committed under epoch ${entry.epoch} after ${word.maxEpoch} had begun`,
      );
    }
    if (word.commits > 1)
      this.report('double-commit', `${entry.id} was committed ${word.commits} times`);
  }
}

function isTerminal(entry: JournalEntry): boolean {
  return entry.state === 'done' || entry.state === 'dead' || entry.state === 'cancelled';
}
