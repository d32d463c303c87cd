import { SeededRandom } from './seeded-random.ts';
import {
  planTasks,
  withKeys,
  withReceipts,
  withUnstorable,
  type LinkTrouble,
  type TaskPlan,
} from './task-plan.ts';
import { drawErrands, type Errand } from './timetable.ts';
import { topologyOf, type Topology } from './topology.ts';

/** How often each kind of fault strikes. Zero switches a kind off: seeds differ in what they try (swarm testing). */
export interface FaultRates {
  /** Mean time between two faults of the kind, over all processes. */
  readonly killEveryMs: number;
  readonly pauseEveryMs: number;
  readonly drainEveryMs: number;
  readonly outageEveryMs: number;
  readonly brokerCutEveryMs: number;
  readonly clockJumpEveryMs: number;
  /** The broker loses messages that are durable elsewhere. */
  readonly brokerLossEveryMs: number;
  /** The ledger forgets the last `begin`, and is served by another server. */
  readonly failoverEveryMs: number;
  /** Chance per call. */
  readonly lostReply: number;
  readonly lostRequest: number;
  readonly slow: number;
  /** Chance each time a named gap between two effects is reached. */
  readonly killAtPoint: number;
  readonly pauseAtPoint: number;
  /** Which share of those pauses outlasts even the tombstones. */
  readonly sleepPastTombstone: number;
}

/** Everything a run is made of, drawn from its seed. */
export interface SimPlan {
  readonly seed: number;
  readonly topology: Topology;
  readonly workers: number;
  readonly relays: number;
  readonly resurrectors: number;
  /** A supervisor sees a worker process end; without one its lease must run out. */
  readonly isSupervised: boolean;
  /** Stores hint that work is ready; without hints polling must do. */
  readonly hasHints: boolean;
  readonly concurrency: number;
  /** When workers acknowledge a message of the broker. */
  readonly ackOn: 'commit' | 'begin';
  readonly leaseMs: number;
  readonly beatMs: number;
  readonly idleMs: number;
  readonly staleMs: number;
  readonly sendTimeoutMs: number;
  readonly dedupMs: number;
  /** How long a published task may be unknown before it is published again. */
  readonly receiptMs: number;
  readonly batchSize: number;
  /** Messages on their way to the broker at once. */
  readonly window: number;
  readonly lookEveryMs: number;
  readonly faultMs: number;
  /** After the faults end everything must have converged within this time. */
  readonly healMs: number;
  readonly rates: FaultRates;
  readonly linkTrouble: LinkTrouble;
  readonly tasks: readonly TaskPlan[];
  readonly schedulers: number;
  /** What is done with schedules; empty: there are none. */
  readonly errands: readonly Errand[];
}

function drawRates(random: SeededRandom, isSleepy: boolean): FaultRates {
  const maybe = (share: number, value: () => number): number =>
    random.chance(share) ? value() : 0;
  const calm = isSleepy ? 2 : 1;
  const every = (minMs: number, maxMs: number) => () => calm * random.int(minMs, maxMs);
  return {
    killEveryMs: maybe(0.7, every(3_000, 15_000)),
    pauseEveryMs: maybe(0.6, every(4_000, 15_000)),
    drainEveryMs: maybe(0.4, every(6_000, 25_000)),
    outageEveryMs: maybe(0.4, every(12_000, 40_000)),
    brokerCutEveryMs: maybe(0.4, every(6_000, 25_000)),
    clockJumpEveryMs: maybe(0.15, every(12_000, 40_000)),
    brokerLossEveryMs: 0,
    failoverEveryMs: 0,
    lostReply: maybe(0.7, () => random.next() * 0.04),
    lostRequest: maybe(0.5, () => random.next() * 0.03),
    slow: maybe(0.5, () => random.next() * 0.03),
    // Never off: random moments almost never fall into a gap, and the worst mistakes live there.
    killAtPoint: 0.01 + random.next() * 0.03,
    pauseAtPoint: 0.02 + random.next() * 0.05,
    sleepPastTombstone: isSleepy ? 0.7 : 0,
  };
}

/** Most seeds are short and busy; some are long enough to outlast tombstones. */
export function drawPlan(seed: number, topology: Topology = topologyOf(seed)): SimPlan {
  const random = new SeededRandom(seed, `plan/${topology}`);
  const isSleepy = random.chance(0.1);
  const leaseMs = random.int(5_000, 10_000);
  const staleMs = random.int(15_000, 30_000);
  // A copy may come three stale timeouts late, and it may wait in a queue while workers sleep one after the other:
  // one that outlasts its tombstone runs again, as documented, and would look like a violation here.
  const dedupMs = isSleepy ? 150_000 : 600_000;
  const faultMs = isSleepy ? dedupMs + random.int(150_000, 190_000) : random.int(20_000, 45_000);
  const plan: SimPlan = {
    seed,
    topology,
    workers: random.int(2, 3),
    relays: random.int(1, 2),
    resurrectors: random.int(1, 2),
    isSupervised: random.chance(0.5),
    hasHints: random.chance(0.6),
    concurrency: random.int(isSleepy ? 2 : 1, 5),
    // Topologies take turns, so every third pair of seeds.
    ackOn: Math.floor(seed / 2) % 3 === 0 ? 'begin' : 'commit',
    leaseMs,
    beatMs: Math.floor(leaseMs / random.int(3, 5)),
    idleMs: random.int(2_000, 6_000),
    staleMs,
    sendTimeoutMs: random.int(1_000, 4_000),
    dedupMs,
    receiptMs: dedupMs,
    batchSize: random.int(2, 12),
    window: random.int(0, 1) === 0 ? 1 : random.int(2, 30),
    lookEveryMs: random.int(1_500, 4_000),
    faultMs,
    healMs: 2 * staleMs + 6 * leaseMs + 90_000,
    rates: drawRates(random, isSleepy),
    linkTrouble: 'none',
    tasks: withKeys(
      planTasks(random, {
        topology,
        count: random.int(9, 17),
        spanMs: Math.min(faultMs, 60_000) * 0.8,
        // A worker that sleeps past the tombstone between its commit and its follow-up sends that one again: a late copy.
        hasLinks: !isSleepy,
      }),
      new SeededRandom(seed, 'keys'),
    ),
    schedulers: 0,
    errands: [],
  };
  const scheduled = isSleepy ? plan : withSchedules(plan);
  const failing = withFailovers(withLinkTrouble(scheduled, isSleepy));
  // A task that is published again while workers sleep is a late copy too.
  const lossy = topology === 'separate-broker' && !isSleepy ? withLosses(failing) : failing;
  return topology === 'separate-broker' ? withGuilty(lossy) : lossy;
}

/** Few runs have schedules: each slot is one more task. */
function withSchedules(plan: SimPlan): SimPlan {
  const random = new SeededRandom(plan.seed, 'schedules');
  if (!random.chance(0.25)) return plan;
  const schedulers = random.int(1, 2);
  return { ...plan, schedulers, errands: drawErrands(random, plan.faultMs) };
}

/** Giving up takes fourteen refusals. */
const GIVING_UP_MS = 120_000;

/** Only a broker refuses. Plans without links have nothing that could be refused. */
function withLinkTrouble(plan: SimPlan, isSleepy: boolean): SimPlan {
  const random = new SeededRandom(plan.seed, 'links');
  const roll = random.next();
  if (isSleepy || roll > 0.26) return plan;
  const isForbidden = roll < 0.1 || plan.topology === 'one-database';
  const linkTrouble = isForbidden ? 'forbidden' : roll < 0.22 ? 'passing' : 'lasting';
  const healMs = plan.healMs + (linkTrouble === 'lasting' ? GIVING_UP_MS : 0);
  return { ...plan, linkTrouble, healMs };
}

/** Some brokers bring messages that the ledger cannot store, among others that it can. */
function withGuilty(plan: SimPlan): SimPlan {
  const random = new SeededRandom(plan.seed, 'unstorable');
  if (!random.chance(0.25)) return plan;
  const atMs = Math.floor(random.next() * Math.min(plan.faultMs, 60_000) * 0.8);
  return { ...plan, tasks: withUnstorable(plan.tasks, random, atMs) };
}

/**
 * A message that was acknowledged at `begin` is lost with the record, as documented, and would look like a violation.
 */
function withFailovers(plan: SimPlan): SimPlan {
  const random = new SeededRandom(plan.seed, 'failovers');
  const isKept = plan.topology === 'one-database' || plan.ackOn === 'commit';
  const failoverEveryMs = isKept && random.chance(0.3) ? random.int(5_000, 20_000) : 0;
  return { ...plan, rates: { ...plan.rates, failoverEveryMs } };
}

/** Some rows stay until their task is over, and the broker forgets what they stand for. */
function withLosses(plan: SimPlan): SimPlan {
  const random = new SeededRandom(plan.seed, 'receipts');
  // The wait doubles with every publishing, to sixteen times this at most: all of it must fit into the time to heal.
  const receiptMs = random.int(2_000, 5_000);
  const brokerLossEveryMs = random.chance(0.6) ? random.int(4_000, 15_000) : 0;
  const rates = { ...plan.rates, brokerLossEveryMs };
  return { ...plan, receiptMs, rates, tasks: withReceipts(plan.tasks, random) };
}
