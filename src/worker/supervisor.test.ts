import type { Death } from '../ledger/death.ts';
import { describe, expect, it } from 'vitest';
import { VirtualTime } from '../testing/virtual-time.ts';
import { outlastError } from '../errors/error.ts';
import { noFaults } from '../runtime/runtime.ts';
import { noEvents } from '../telemetry/events.ts';
import { silentLogger } from '../telemetry/logger.ts';
import { Supervisor, type Child } from './supervisor.ts';

interface FakeChild extends Child {
  readonly startedAt: number;
  readonly received: string[];
  exit(how: string): void;
  wearOut(why: string): void;
  dismiss(): void;
}

const AWAY = outlastError('ERR_STORE_UNAVAILABLE', { message: 'away', hint: '', fields: {} });

function setup(processes = 1, ignoresDrain = false, isHanging = false) {
  const time = new VirtualTime();
  const { clock } = time;
  let token = 0;
  const random = { next: () => 0.5, token: () => `t${++token}` };
  const logged: string[] = [];
  const note = (fields: object, message: string): void =>
    void logged.push(`${message} ${JSON.stringify(fields)}`);
  const log = { ...silentLogger, error: note, warn: note };
  const runtime = { clock, random, faultPoint: noFaults, log, emit: noEvents };
  const children: FakeChild[] = [];
  const reaped: string[] = [];
  const spawn = (process: string): Child => {
    const received: string[] = [];
    let exit = (_how: string): void => undefined;
    let wearOut = (_why: string): void => undefined;
    let dismiss = (): void => undefined;
    const child: FakeChild = {
      process,
      pid: children.length,
      startedAt: time.nowMs,
      received,
      exited: new Promise<Death>(resolve => {
        exit = how => resolve({ kind: how.startsWith('SIG') ? 'signal' : 'exited', message: how });
      }),
      loaded: isHanging ? new Promise<void>(() => undefined) : Promise.resolve(),
      worn: new Promise<string>(resolve => void (wearOut = resolve)),
      dismissed: new Promise<void>(resolve => void (dismiss = resolve)),
      retire: () => void received.push('retire'),
      drain: () => {
        received.push('drain');
        if (!ignoresDrain) exit('code 0');
      },
      kill: why => {
        received.push('kill');
        exit(why?.message ?? 'SIGKILL');
      },
      exit: how => exit(how),
      wearOut: why => wearOut(why),
      dismiss: () => dismiss(),
    };
    children.push(child);
    return child;
  };
  let isAway = false;
  let looks = 0;
  const ledger = {
    condemn: (target: { readonly kind: string; readonly process?: string }) => {
      if (isAway) return Promise.reject(AWAY);
      if (target.kind === 'expired') looks += 1;
      if (target.process !== undefined) reaped.push(target.process);
      return Promise.resolve({ workers: [], deaths: [], storeMs: time.nowMs });
    },
    reap: () =>
      isAway
        ? Promise.reject(AWAY)
        : Promise.resolve({ returned: [], buried: [], more: false, storeMs: time.nowMs }),
  };
  const settings = {
    processes,
    intervalMs: 500,
    shutdownTimeoutMs: 1_000,
    leaseMs: 5_000,
    beatMs: 1_000,
    chunk: 10,
    modules: ['./hangs.ts'],
  };
  const supervisor = new Supervisor({ ledger, runtime, settings, spawn });
  const stop = new AbortController();
  const running = supervisor.run(stop.signal);
  const end = async (): Promise<void> => {
    stop.abort();
    await time.runUntil(time.nowMs + 20_000);
    await running;
  };
  const cut = (value: boolean): void => void (isAway = value);
  return {
    time,
    children,
    reaped,
    logged,
    looks: () => looks,
    cut,
    supervisor,
    running,
    stop,
    end,
  };
}

describe('a supervisor', () => {
  it('reaps the tasks of a dead child at once, and starts another one, later each time it dies soon', async () => {
    const { time, children, reaped, end } = setup();
    await time.runUntil(10);
    for (let deaths = 0; deaths < 8; deaths++) {
      children.at(-1)?.exit('SIGKILL');
      await time.runUntil(time.nowMs + 6_000);
    }
    const waits = children.slice(1).map((child, at) => child.startedAt - at * 6_000 - 10);
    expect(waits).toEqual([100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
    expect(reaped).toEqual(children.slice(0, -1).map(child => child.process));
    // A child that has lived is replaced at once, whatever happened before.
    await time.runUntil(time.nowMs + 20_000);
    const diedAt = time.nowMs;
    children.at(-1)?.exit('SIGKILL');
    await time.runUntil(diedAt + 1_000);
    expect((children.at(-1)?.startedAt ?? 0) - diedAt).toBe(50);
    await end();
  });

  it('replaces a child that has reached its limits while that finishes its tasks', async () => {
    const { time, children, supervisor, reaped, end } = setup();
    await time.runUntil(20_000);
    children[0]?.wearOut('it has begun 100 tasks');
    await time.runUntil(21_000);
    expect(children[0]?.received).toEqual(['retire']);
    expect(supervisor.children).toEqual(children.slice(0, 2));
    expect(reaped).toEqual([]);
    children[0]?.exit('code 0');
    await time.runUntil(22_000);
    expect(supervisor.children).toEqual([children[1]]);
    expect(reaped).toEqual([children[0]?.process]);
    await end();
    expect(children).toHaveLength(2);
  });

  it('replaces all children that are out of date at once, also while older ones finish', async () => {
    const { time, children, supervisor, end } = setup(2);
    await time.runUntil(10);
    supervisor.replace('new code');
    await time.runUntil(20);
    supervisor.replace('newer code');
    await time.runUntil(30);
    expect(children.map(({ received }) => received)).toEqual([
      ...Array.from({ length: 4 }, () => ['retire']),
      [],
      [],
    ]);
    for (const child of children.slice(0, 4)) child.exit('code 0');
    await time.runUntil(40);
    expect(supervisor.children).toEqual(children.slice(4));
    await end();
    expect(children).toHaveLength(6);
  });

  it('starts a child that could not live at once when there is new code', async () => {
    const { time, children, supervisor, end } = setup();
    await time.runUntil(10);
    for (let deaths = 0; deaths < 6; deaths++) {
      children.at(-1)?.exit('code 1');
      await time.runUntil(time.nowMs + 6_000);
    }
    children.at(-1)?.exit('code 1');
    await time.runUntil(time.nowMs + 100);
    expect(children).toHaveLength(7);
    supervisor.replace('new code');
    await time.runUntil(time.nowMs + 10);
    expect(children).toHaveLength(8);
    await end();
  });

  it('retires only one child at a time in each position', async () => {
    const { time, children, end } = setup();
    await time.runUntil(20_000);
    children[0]?.wearOut('old');
    await time.runUntil(40_000);
    children[1]?.wearOut('old');
    await time.runUntil(60_000);
    expect(children).toHaveLength(2);
    expect(children[1]?.received).toEqual([]);
    children[0]?.exit('code 0');
    await time.runUntil(61_000);
    expect(children[1]?.received).toEqual(['retire']);
    expect(children).toHaveLength(3);
    await end();
  });

  it('lets a worn child leave after an hour although an older one never ends, up to a number', async () => {
    const { time, children, logged, end } = setup();
    for (let worn = 0; worn < 6; worn++) {
      await time.runUntil(time.nowMs + 20_000);
      children[worn]?.wearOut('old');
      await time.runUntil(time.nowMs + 3_590_000);
      expect(children).toHaveLength(worn === 0 ? 2 : Math.min(worn + 1, 5));
      await time.runUntil(time.nowMs + 20_000);
    }
    expect(children).toHaveLength(5);
    expect(logged.filter(line => line.includes('older ones still run'))).toHaveLength(3);
    children[0]?.exit('code 0');
    await time.runUntil(time.nowMs + 3_700_000);
    expect(children).toHaveLength(6);
    await end();
  });

  it('kills a child that never loads, names what it loads, and starts the next one later each time', async () => {
    const { time, children, logged, reaped, end } = setup(1, false, true);
    await time.runUntil(500_000);
    expect(children.map(child => child.startedAt)).toEqual([0, 120_100, 240_300, 360_700, 481_500]);
    expect(children[0]?.received).toEqual(['kill']);
    expect(reaped).toHaveLength(4);
    expect(logged[0]).toMatch(/has not loaded .* within 120 s.*"modules":\["\.\/hangs\.ts"\]/);
    await end();
  });

  it('starts another child when one dies while it waits to be replaced', async () => {
    const { time, children, end } = setup();
    await time.runUntil(20_000);
    children[0]?.wearOut('old');
    await time.runUntil(40_000);
    children[1]?.wearOut('old');
    children[1]?.exit('SIGKILL');
    await time.runUntil(41_000);
    expect(children).toHaveLength(3);
    await end();
  });

  it('drains every child when it is stopped, also retired ones', async () => {
    const { time, children, end } = setup(2);
    await time.runUntil(20_000);
    children[0]?.wearOut('old');
    await time.runUntil(21_000);
    await end();
    expect(children.map(child => child.received)).toEqual([
      ['retire', 'drain'],
      ['drain'],
      ['drain'],
    ]);
  });

  it('does not replace a dismissed child, keeps the others, and ends with the last', async () => {
    const { time, children, supervisor, reaped, running } = setup(2);
    await time.runUntil(20_000);
    children[0]?.dismiss();
    await time.runUntil(40_000);
    expect(children).toHaveLength(2);
    expect(children[0]?.received).toEqual(['drain']);
    expect(supervisor.children).toEqual([children[1]]);
    expect(reaped).toEqual([children[0]?.process]);
    children[1]?.dismiss();
    await time.runUntil(41_000);
    await running;
    expect(children).toHaveLength(2);
  });

  it('reaps a dead child when the store is back after an outage, and looks for expired workers again', async () => {
    const { time, children, reaped, looks, cut, end } = setup();
    await time.runUntil(10_000);
    const before = looks();
    expect(before).toBeGreaterThan(5);
    cut(true);
    children[0]?.exit('SIGKILL');
    await time.runUntil(20_000);
    expect([reaped, looks(), children.length]).toEqual([[], before, 1]);
    cut(false);
    // It declares no worker dead for one lease: the store was away, not the workers.
    await time.runUntil(22_000);
    expect([reaped, looks(), children.length]).toEqual([[children[0]?.process], before, 2]);
    await time.runUntil(30_000);
    expect(looks()).toBeGreaterThan(before + 5);
    await end();
  });

  it('kills a child that does not drain in time', async () => {
    const { time, children, stop, running } = setup(1, true);
    await time.runUntil(10);
    stop.abort();
    await time.runUntil(1_000);
    expect(children[0]?.received).toEqual(['drain']);
    await time.runUntil(10_000);
    expect(children[0]?.received).toEqual(['drain', 'kill']);
    await running;
  });
});
