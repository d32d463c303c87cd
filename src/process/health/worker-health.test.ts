import { describe, expect, it } from 'vitest';
import { healthOfWorker, Pulses } from './worker-health.ts';

const SENDS = { unsentMs: null, blockedBy: null, prefetched: 0 };
const well = healthOfWorker({ idleMs: 10, isOpen: true, deafMs: 0, running: 1, ...SENDS });

describe('a worker', () => {
  it('is alive while its loop turns, and ready while it has a lease', () => {
    expect(well).toMatchObject({ alive: true, ready: true });
    expect(
      healthOfWorker({ idleMs: 10, isOpen: false, deafMs: 0, running: 0, ...SENDS }),
    ).toMatchObject({
      alive: true,
      ready: false,
    });
    expect(
      healthOfWorker({ idleMs: 60_000, isOpen: true, deafMs: 0, running: 9, ...SENDS }).alive,
    ).toBe(false);
  });

  it('is alive but not ready while it cannot receive messages', () => {
    for (const deafMs of [null, 15_000]) {
      const deaf = healthOfWorker({ idleMs: 10, isOpen: true, deafMs, running: 0, ...SENDS });
      expect(deaf).toMatchObject({ alive: true, ready: false });
    }
  });
});

describe('a worker whose broker blocks publishing', () => {
  const blocked = healthOfWorker({
    idleMs: 10,
    isOpen: true,
    deafMs: 0,
    running: 1,
    prefetched: 0,
    unsentMs: 4_000,
    blockedBy: 'low on memory',
  });
  const figures = { follow_ups_unsent_seconds: 4, broker_blocked: 'low on memory' };

  it('is ready because it runs tasks, and reports unsent follow-ups', () => {
    expect(blocked).toMatchObject({ alive: true, ready: true, details: figures });
  });

  it('is reported by its supervisor', () => {
    const pulses = new Pulses({ monotonic: () => 0 }, 2, 120_000);
    pulses.record('a', well);
    expect(pulses.look().details).toMatchObject({
      follow_ups_unsent_seconds: null,
      broker_blocked: null,
    });
    pulses.record('b', blocked);
    expect(pulses.look()).toMatchObject({ ready: true, details: figures });
  });
});

describe('a supervisor', () => {
  function setup() {
    let now = 0;
    const pulses = new Pulses({ monotonic: () => now }, 2, 120_000);
    return { pulses, pass: (ms: number) => void (now += ms) };
  }

  it('is alive while its children start or are replaced, and ready when all of them are', () => {
    const { pulses } = setup();
    expect(pulses.look()).toMatchObject({ alive: true, ready: false });
    pulses.record('a', well);
    expect(pulses.look()).toMatchObject({ alive: true, ready: false });
    pulses.record('b', well);
    expect(pulses.look()).toMatchObject({ alive: true, ready: true });
    pulses.gone('b');
    expect(pulses.look()).toMatchObject({ alive: true, ready: false });
  });

  it('waits for a child whose event loop is busy until maxBlock is over', () => {
    const { pulses, pass } = setup();
    pulses.record('a', well);
    pass(125_000);
    expect(pulses.look().alive).toBe(true);
    pass(60_000);
    expect(pulses.look().alive).toBe(false);
  });

  it('is not alive when a child reports that its loop does not turn', () => {
    const { pulses } = setup();
    pulses.record(
      'a',
      healthOfWorker({ idleMs: 60_000, isOpen: true, deafMs: 0, running: 1, ...SENDS }),
    );
    expect(pulses.look().alive).toBe(false);
  });
});
