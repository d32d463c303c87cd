import { createHash } from 'node:crypto';
import { wantsReceipt } from '../../src/outbox/receipt-store.ts';
import { Checker, type Violation } from './checker.ts';
import { Faults, SERVICES, type FaultKind } from './faults.ts';
import { Fleet } from './fleet.ts';
import { makeMachine, type Host, type Machine } from './host.ts';
import type { Mutant } from './mutants.ts';
import type { SimPlan } from './plan.ts';
import { SeededRandom } from './seeded-random.ts';
import { keepSchedules } from './schedules.ts';
import { Stores, type Trace } from './stores.ts';
import { DAY_ZERO_MS } from './timetable.ts';
import { forgeryOf } from './forgery.ts';
import { envelopeOf, digestConflictOf, type TaskKind, type TaskPlan } from './task-plan.ts';
import { Truth } from './truth.ts';
import { VirtualTime } from '../../src/testing/virtual-time.ts';

export interface RunReport {
  readonly violations: readonly Violation[];
  /** Why the run proves nothing: too little happened in it. */
  readonly invalid: string | null;
  readonly tasks: number;
  readonly executions: number;
  readonly reruns: number;
  /** Of schedules, that were sent. */
  readonly slots: number;
  readonly faults: ReadonlyMap<FaultKind, number>;
  readonly points: ReadonlyMap<string, number>;
  readonly virtualMs: number;
  readonly events: number;
  /** Stands for the whole history: equal for two runs that did the same. */
  readonly digest: string;
}

const MIN_TASKS = 4;
const MIN_FAULTS = 3;
const CHECK_EVERY_MS = 500;
/** The late calls of the sleepers of the last fault must have arrived before the run counts as quiet. */
const SETTLE_MS = 5_000;

/** Runs one plan: faults first, then none, and then everything must have come to its end. */
export async function runPlan(
  plan: SimPlan,
  mutant: Mutant | null = null,
  trace: Trace = () => undefined,
): Promise<RunReport> {
  const time = new VirtualTime();
  const checker = new Checker();
  const faults = new Faults(plan, time);
  const stores = new Stores(plan, { time, checker, faults, trace }, mutant);
  const truth = new Truth(plan, stores, checker, faults);
  const host: Host = { plan, time, faults, checker, stores, mutant, trace };
  const fleet = new Fleet(host, truth);
  fleet.start();
  produce(host, truth);
  keepSchedules(host);
  scheduleFaults(host, fleet);
  await time.runUntil(plan.faultMs);
  await heal(host, fleet, truth);
  truth.judge();
  const { executions, reruns, committed } = truth;
  return {
    violations: checker.violations,
    invalid: invalidity(committed, faults.total),
    tasks: committed,
    executions,
    reruns,
    slots: stores.slots.sent.size,
    faults: faults.counts,
    points: faults.points,
    virtualMs: time.nowMs,
    events: time.events,
    digest: stores.digest(),
  };
}

function invalidity(tasks: number, faults: number): string | null {
  if (tasks < MIN_TASKS) return `only ${tasks} tasks were committed`;
  return faults < MIN_FAULTS ? `only ${faults} faults struck` : null;
}

async function heal(host: Host, fleet: Fleet, truth: Truth): Promise<void> {
  const { time, faults, plan } = host;
  faults.isActive = false;
  fleet.wake();
  const look = (): void => {
    if (truth.isQuiet()) time.stop();
    else time.after(CHECK_EVERY_MS, look);
  };
  time.after(SETTLE_MS, look);
  await time.runUntil(plan.faultMs + plan.healMs);
}

/** Producers and an operator: processes that outlive the run, but whose calls get lost like all others. */
function produce(host: Host, truth: Truth): void {
  const producer = makeMachine(host, 'producer');
  forge(host);
  operate(host, producer);
  const random = new SeededRandom(host.plan.seed, 'again');
  for (const plan of host.plan.tasks) {
    // The answer to a COMMIT is lost, or the caller is called twice: it sends again, under the same id.
    const isRepeated = host.plan.topology === 'one-database' && random.chance(0.2);
    const timesMs = isRepeated
      ? [plan.writeAtMs, random.int(0, plan.writeAtMs * 2)]
      : [plan.writeAtMs];
    for (const atMs of timesMs)
      host.time.after(atMs, () => void send(host, producer, truth, plan).catch(() => undefined));
    if (plan.cancelAtMs === null) continue;
    host.time.after(
      plan.cancelAtMs,
      () => void cancel(host, producer, truth, plan.id).catch(() => undefined),
    );
  }
}

/** How often an operator looks for dead letters, and how much later a second one may revive what the first has revived. */
const OPERATE_EVERY_MS = 3_000;
const SECOND_THOUGHT_MS = 8_000;

/** Opens the gate for follow-ups that were given up, or after a while, and revives them. */
function operate({ plan, time, stores }: Host, { ledger }: Machine): void {
  const { links } = stores;
  if (plan.linkTrouble === 'none') return;
  const random = new SeededRandom(plan.seed, 'operator');
  if (plan.linkTrouble === 'passing')
    time.after(random.int(5_000, plan.faultMs), () => links.open());
  const look = (): void => {
    for (const { id, version } of links.letters(stores.ledger.state.records.values())) {
      links.open();
      const revive = (): void => void links.revive(ledger, { id, version }).catch(() => undefined);
      revive();
      time.after(random.int(0, SECOND_THOUGHT_MS), revive);
    }
    time.after(OPERATE_EVERY_MS, look);
  };
  time.after(OPERATE_EVERY_MS, look);
}

const NOT_FORGED: ReadonlySet<TaskKind> = new Set(['raw', 'unroutable', 'unstorable']);

/**
 * An attacker who may write to the queues of the broker, has no key, and knows the ids of some tasks, some before they
 * are sent.
 */
function forge(host: Host): void {
  const random = new SeededRandom(host.plan.seed, 'forgery');
  if (host.plan.topology !== 'separate-broker') return;
  for (const plan of host.plan.tasks) {
    if (NOT_FORGED.has(plan.kind) || !random.chance(0.2)) continue;
    const atMs = Math.floor(random.next() * 2 * plan.writeAtMs);
    const nowMs = DAY_ZERO_MS + atMs;
    host.time.after(atMs, () => void host.stores.server.accept(forgeryOf(envelopeOf(plan, nowMs))));
  }
}

async function send(host: Host, producer: Machine, truth: Truth, plan: TaskPlan): Promise<void> {
  const envelope = envelopeOf(plan, DAY_ZERO_MS + host.time.nowMs);
  const { outbox, server } = host.stores;
  if (plan.kind === 'raw') {
    const raw = new TextEncoder().encode(`not JSON: ${plan.id}`);
    const id = createHash('sha256').update(raw).digest('hex');
    return await producer.call('broker')(() => {
      server.acceptRaw({ raw, queue: plan.queue, why: 'not JSON' });
      truth.onCommitted(id, 'raw');
    });
  }
  if (plan.kind === 'impostor') {
    const other = digestConflictOf(envelope, DAY_ZERO_MS + host.time.nowMs);
    return await producer.call('broker')(() => {
      for (const message of [envelope, other]) server.accept(message);
      truth.onCommitted(plan.id, 'ok');
      truth.onDigestConflict(plan.id, [envelope.digest, other.digest]);
    });
  }
  if (plan.isPushed) {
    // A clock that is set back makes every moment one before it.
    if (envelope.etaMs !== null && host.plan.rates.clockJumpEveryMs === 0)
      host.checker.expectEta(plan.id, envelope.etaMs);
    return await producer.call('broker')(() => {
      if (server.accept(envelope).status === 'confirmed') truth.onCommitted(plan.id, plan.kind);
    });
  }
  await producer.call('outbox')(() => {
    const tx = outbox.begin();
    const inside = host.mutant?.writesOutsideTransaction ? outbox.begin() : tx;
    host.stores.send(inside, envelope);
    if (inside !== tx) inside.commit();
    tx.write(() => truth.onCommitted(plan.id, plan.kind));
    if (plan.isRolledBack) tx.rollback();
    else tx.commit();
  });
}

async function cancel(host: Host, operator: Machine, truth: Truth, id: string): Promise<void> {
  await operator.call('ledger')(() => {
    truth.onCancelled(id);
    return host.stores.ledger.cancel(id);
  });
}

/** Each kind of fault strikes again and again, at times drawn from the seed. */
function scheduleFaults(host: Host, fleet: Fleet): void {
  const { time, faults, plan, stores } = host;
  const random = new SeededRandom(plan.seed, 'schedule');
  const strike = (everyMs: number, fn: () => void): void => {
    if (everyMs === 0) return;
    const next = (): void => {
      time.after(Math.floor(everyMs * (0.3 + 1.4 * random.next())), () => {
        if (!faults.isActive) return;
        fn();
        next();
      });
    };
    next();
  };
  const { rates } = plan;
  const onSomebody = (fn: (slot: NonNullable<ReturnType<Fleet['pick']>>) => void) => (): void => {
    const slot = fleet.pick();
    if (slot !== undefined) fn(slot);
  };
  strike(
    rates.killEveryMs,
    onSomebody(slot => fleet.kill(slot)),
  );
  strike(
    rates.pauseEveryMs,
    onSomebody(slot => fleet.pause(slot)),
  );
  strike(
    rates.drainEveryMs,
    onSomebody(slot => fleet.drain(slot)),
  );
  strike(
    rates.brokerCutEveryMs,
    onSomebody(slot => fleet.cutBroker(slot)),
  );
  strike(rates.outageEveryMs, () => {
    const service = random.pick(SERVICES);
    faults.bringDown(service, random.int(500, 12_000));
    if (service === 'broker') fleet.cutAll();
  });
  strike(rates.brokerLossEveryMs, () => {
    // Others may be lost so, as documented, and would look like a violation here.
    const lost = stores.server.lose(({ options }) => wantsReceipt(options));
    for (let one = 0; one < lost; one++) faults.count('broker-loss');
  });
  strike(rates.failoverEveryMs, () => {
    faults.count('lossy-failover');
    stores.failOverAfterBegin();
  });
  strike(rates.clockJumpEveryMs, () => {
    faults.count('clock-jump');
    stores.jumpClock(random.int(-15_000, 15_000));
  });
}
