import type { FaultPointName } from '../../src/runtime/runtime.ts';
import type { SimPlan } from './plan.ts';
import { SeededRandom } from './seeded-random.ts';
import type { SimProcess } from './sim-process.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';

export const FAULT_KINDS = [
  'kill',
  'kill-at-point',
  'pause',
  'pause-at-point',
  'drain',
  'lost-reply',
  'lost-request',
  'slow-call',
  'outage',
  'broker-cut',
  'clock-jump',
  'broker-loss',
  'lossy-failover',
  'poison-pill',
  'follow-up-refused',
  'follow-up-revived',
  'batch-refused',
] as const;
export type FaultKind = (typeof FAULT_KINDS)[number];

export const SERVICES = ['ledger', 'outbox', 'broker'] as const;
/** What a process calls over the network. In one database a fault of one is a fault of all. */
export type Service = (typeof SERVICES)[number];

/** What becomes of one call. */
export interface Fate {
  readonly requestMs: number;
  readonly replyMs: number;
  readonly loses: 'nothing' | 'request' | 'reply';
}

/** Beats reach their point all the time and would get most of the faults; reapers and slots reach theirs too seldom. */
const SHARES: Partial<Record<FaultPointName, number>> = {
  'heartbeat.renewed': 0.05,
  'reaper.closed-not-requeued': 4,
  'reaper.mid-chunk': 4,
  'schedule.locked-not-written': 3,
  'schedule.written-not-advanced': 3,
  'schedule.advanced-not-committed': 3,
  'schedule.committed-not-reported': 3,
};

/** Decides what goes wrong, and counts it. Silent once the faults have ended. */
export class Faults {
  readonly counts: Map<FaultKind, number> = new Map();
  readonly points: Map<FaultPointName, number> = new Map();
  isActive = true;
  readonly #plan: SimPlan;
  readonly #time: VirtualTime;
  readonly #random: SeededRandom;
  readonly #downUntil = new Map<Service, number>();
  #sleeperUntil = 0;

  constructor(plan: SimPlan, time: VirtualTime) {
    this.#plan = plan;
    this.#time = time;
    this.#random = new SeededRandom(plan.seed, 'faults');
  }

  get total(): number {
    let total = 0;
    for (const count of this.counts.values()) total += count;
    return total;
  }

  count(kind: FaultKind): void {
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1);
  }

  isDown(service: Service): boolean {
    return this.isActive && this.#time.nowMs < (this.#downUntil.get(service) ?? 0);
  }

  bringDown(service: Service, ms: number): void {
    this.count('outage');
    const services = this.#plan.topology === 'one-database' ? SERVICES : [service];
    for (const one of services) this.#downUntil.set(one, this.#time.nowMs + ms);
  }

  fate(): Fate {
    const random = this.#random;
    const { lostReply, lostRequest, slow } = this.#plan.rates;
    const requestMs = random.int(1, 8);
    // Most replies come with the effect: fewer events, and the gap between the two is tried often enough.
    const replyMs = random.chance(0.25) ? random.int(1, 12) : 0;
    if (!this.isActive) return { requestMs, replyMs, loses: 'nothing' };
    const extraMs = this.#strikes('slow-call', slow) ? random.int(200, 6_000) : 0;
    const isBefore = random.chance(0.5);
    const late = {
      requestMs: requestMs + (isBefore ? extraMs : 0),
      replyMs: replyMs + (isBefore ? 0 : extraMs),
    };
    if (this.#strikes('lost-reply', lostReply)) return { ...late, loses: 'reply' };
    if (this.#strikes('lost-request', lostRequest)) return { ...late, loses: 'request' };
    return { ...late, loses: 'nothing' };
  }

  losesHint(): boolean {
    return this.isActive && this.#random.chance(0.15);
  }

  /** A process has reached a gap between two effects: goes on, dies there, or sleeps for so long. */
  atPoint(name: FaultPointName, process: SimProcess): 'go-on' | 'kill' | number {
    this.points.set(name, (this.points.get(name) ?? 0) + 1);
    const { killAtPoint, pauseAtPoint } = this.#plan.rates;
    if (!this.isActive || !process.isRunning) return 'go-on';
    const share = SHARES[name] ?? 1;
    if (this.#strikes('kill-at-point', killAtPoint * share)) return 'kill';
    if (this.#strikes('pause-at-point', pauseAtPoint * share)) return this.pauseMs(name);
    return 'go-on';
  }

  /** Relays may sleep past their claims, workers past their leases and now and then past the tombstones. */
  pauseMs(name: FaultPointName | 'anywhere'): number {
    const random = this.#random;
    const { leaseMs, staleMs, dedupMs, rates } = this.#plan;
    if (name.startsWith('relay.')) return random.int(1_000, Math.floor(staleMs * 1.5));
    const isSleeper = name.startsWith('worker.ran') || name.startsWith('door.');
    // One at a time: if all workers slept, copies would outlast the tombstones that turn them away.
    if (
      isSleeper &&
      this.#time.nowMs > this.#sleeperUntil &&
      random.chance(rates.sleepPastTombstone)
    ) {
      // Long enough for a resurrector to have forgotten the tombstone as well.
      const ms = dedupMs + random.int(80_000, 110_000);
      this.#sleeperUntil = this.#time.nowMs + ms;
      return ms;
    }
    return random.int(500, 3 * leaseMs);
  }

  #strikes(kind: FaultKind, probability: number): boolean {
    if (!this.#random.chance(probability)) return false;
    this.count(kind);
    return true;
  }
}
