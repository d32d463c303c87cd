import { describe, expect, it } from 'vitest';
import { isUnavailable } from '../../src/errors/error.ts';
import { sleep } from '../../src/runtime/runtime.ts';
import { Checker } from './checker.ts';
import { Faults } from './faults.ts';
import { MUTANTS } from './mutants.ts';
import { drawPlan, type SimPlan } from './plan.ts';
import { callsTo, type Call } from './remote.ts';
import { runPlan } from './run-plan.ts';
import { SimProcess } from './sim-process.ts';
import { TOPOLOGIES } from './topology.ts';
import { VirtualTime } from '../../src/testing/virtual-time.ts';

describe('virtual time', () => {
  it('runs events by time, then in the order they were scheduled', async () => {
    const time = new VirtualTime();
    const seen: string[] = [];
    time.after(20, () => seen.push(`c ${time.nowMs}`));
    time.after(10, () => seen.push(`a ${time.nowMs}`));
    time.after(10, () => seen.push(`b ${time.nowMs}`));
    const cancel = time.after(15, () => seen.push('cancelled'));
    cancel();
    await time.runUntil(100);
    expect(seen).toEqual(['a 10', 'b 10', 'c 20']);
    expect(time.nowMs).toBe(100);
  });

  it('lets every promise settle before the next event', async () => {
    const time = new VirtualTime();
    let depth = 0;
    const chain = async (): Promise<void> => {
      for (; depth < 50; depth++) await Promise.resolve();
    };
    time.after(1, () => void chain());
    time.after(1, () => expect(depth).toBe(50));
    await time.runUntil(2);
  });
});

interface Rig {
  readonly time: VirtualTime;
  readonly process: SimProcess;
  readonly call: Call;
}

function makeRig(rates: Partial<SimPlan['rates']> = {}): Rig {
  const plan = drawPlan(1);
  const quiet = { lostReply: 0, lostRequest: 0, slow: 0, ...rates };
  const time = new VirtualTime();
  const faults = new Faults({ ...plan, rates: { ...plan.rates, ...quiet } }, time);
  const process = new SimProcess('p', time, 0);
  return {
    time,
    process,
    call: callsTo('ledger', process, { time, faults, checker: new Checker() }),
  };
}

describe('a simulated process', () => {
  it('gets no reply and no timer once it is killed, but its requests take effect', async () => {
    const { time, process, call } = makeRig();
    const seen: string[] = [];
    void call(() => seen.push('effect')).then(() => seen.push('reply'));
    void sleep(process.clock, 50).then(() => seen.push('timer'));
    process.end();
    await time.runUntil(1_000);
    expect(seen).toEqual(['effect']);
  });

  it('gets replies and timers when it wakes', async () => {
    const { time, process, call } = makeRig();
    const seen: string[] = [];
    void call(() => seen.push('effect')).then(() => seen.push(`reply ${time.nowMs}`));
    void sleep(process.clock, 50).then(() => seen.push(`timer ${time.nowMs}`));
    process.pause(500);
    await time.runUntil(1_000);
    expect(seen).toEqual(['effect', 'reply 500', 'timer 500']);
  });

  it('sends nothing while it is paused', async () => {
    const { time, process, call } = makeRig();
    const seen: number[] = [];
    process.pause(500);
    void call(() => seen.push(time.nowMs));
    await time.runUntil(1_000);
    expect(seen[0]).toBeGreaterThan(500);
  });

  it('cannot distinguish a lost reply from a lost request', async () => {
    for (const rates of [{ lostReply: 1 }, { lostRequest: 1 }]) {
      const { time, call } = makeRig(rates);
      let effects = 0;
      const outcome = call(() => (effects += 1)).catch((error: unknown) => error);
      await time.runUntil(1_000);
      expect(isUnavailable(await outcome)).toBe(true);
      expect(effects).toBe('lostReply' in rates ? 1 : 0);
    }
  });
});

const NO_FAULTS: SimPlan['rates'] = {
  killEveryMs: 0,
  pauseEveryMs: 0,
  drainEveryMs: 0,
  outageEveryMs: 0,
  brokerCutEveryMs: 0,
  clockJumpEveryMs: 0,
  brokerLossEveryMs: 0,
  failoverEveryMs: 0,
  lostReply: 0,
  lostRequest: 0,
  slow: 0,
  killAtPoint: 0,
  pauseAtPoint: 0,
  sleepPastTombstone: 0,
};

/** How many tasks were taken from their workers, and what else went wrong, when only these faults strike. */
async function sufferOnly(
  rates: Partial<SimPlan['rates']>,
): Promise<{ reaped: number; violations: unknown[] }> {
  const violations: unknown[] = [];
  let reaped = 0;
  for (let seed = 1; seed <= 30; seed++) {
    // A beat that takes longer than the lease is a death; the slowest call takes six seconds.
    const plan = { ...drawPlan(seed), leaseMs: 10_000, beatMs: 2_000 };
    const tasks = plan.tasks.filter(({ kind }) => kind !== 'pill');
    const report = await runPlan(
      { ...plan, tasks, rates: { ...NO_FAULTS, ...rates } },
      null,
      (_, line) => {
        if (line.startsWith('reap ')) reaped += 1;
      },
    );
    violations.push(...report.violations);
  }
  return { reaped, violations };
}

describe('no living worker is declared dead', () => {
  it.each([
    ['a store that goes away for longer than a lease', { outageEveryMs: 15_000 }],
    ['a slow store', { slow: 0.05 }],
    ["a store's clock that jumps", { clockJumpEveryMs: 12_000 }],
    ['lost connections', { brokerCutEveryMs: 5_000 }],
    ['drains', { drainEveryMs: 3_000 }],
  ])('because of %s', async (_, rates) => {
    expect(await sufferOnly(rates)).toEqual({ reaped: 0, violations: [] });
  });

  it('unless it is killed', async () => {
    const { reaped, violations } = await sufferOnly({ killEveryMs: 5_000 });
    expect(reaped).toBeGreaterThan(0);
    expect(violations).toEqual([]);
  });
});

function firstSeedWithSchedules(): number {
  let seed = 1;
  while (drawPlan(seed).errands.length === 0) seed += 1;
  return seed;
}

describe('a run', () => {
  it.each(TOPOLOGIES)('is the same for the same seed: %s', async topology => {
    const plan = drawPlan(3, topology);
    const [first, second] = [await runPlan(plan), await runPlan(drawPlan(3, topology))];
    expect(second.digest).toBe(first.digest);
    expect(second.events).toBe(first.events);
    expect([...second.faults]).toEqual([...first.faults]);
    expect((await runPlan(drawPlan(4, topology))).digest).not.toBe(first.digest);
  });

  it('is the same for the same seed with schedules', async () => {
    const seed = firstSeedWithSchedules();
    const [first, second] = [await runPlan(drawPlan(seed)), await runPlan(drawPlan(seed))];
    expect(first.slots).toBeGreaterThan(0);
    expect(first.violations).toEqual([]);
    expect(second.digest).toBe(first.digest);
  });

  it('is the same for the same seed with a mutant', async () => {
    const [mutant] = MUTANTS;
    if (mutant === undefined) throw new Error('there are no mutants');
    const [first, second] = [
      await runPlan(drawPlan(5), mutant),
      await runPlan(drawPlan(5), mutant),
    ];
    expect(second.digest).toBe(first.digest);
    expect(second.violations).toEqual(first.violations);
  });

  it('detects a task that is sent outside its transaction and runs although that was rolled back', async () => {
    const mutant = MUTANTS.find(({ writesOutsideTransaction }) => writesOutsideTransaction);
    const kinds = new Set<string>();
    for (let seed = 1; seed <= 10; seed++) {
      const report = await runPlan(drawPlan(seed), mutant);
      for (const { kind } of report.violations) kinds.add(kind);
    }
    expect(kinds).toContain('phantom');
  });
});
