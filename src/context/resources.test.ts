import { describe, expect, it } from 'vitest';
import { VirtualTime } from '../testing/virtual-time.ts';
import { silentLogger, type Logger } from '../telemetry/logger.ts';
import { CLOSE_TIMEOUT_MS, Resources } from './resources.ts';

interface Steps {
  readonly ready?: () => Promise<void>;
  readonly farewell?: () => Promise<void>;
}

const soon = async (): Promise<void> => undefined;

function setup() {
  const time = new VirtualTime();
  const warned: unknown[] = [];
  const log: Logger = { ...silentLogger, warn: fields => void warned.push(fields) };
  const closed: string[] = [];
  const opened: string[] = [];
  const resources = new Resources({ clock: time.clock, log });
  const never = new Promise<never>(() => undefined);
  /** A resource that is open when `ready` resolves, and closed when `farewell` does. */
  const open = (name: string, { ready = soon, farewell = soon }: Steps = {}): Promise<object> =>
    resources.get(name, async () => {
      await ready();
      opened.push(name);
      return {
        close: async () => {
          closed.push(name);
          await farewell();
        },
      };
    });
  return { time, warned, closed, opened, resources, open, never };
}

describe('resources', () => {
  it('are opened once, for the first caller', async () => {
    const { open, opened } = setup();
    const [one, other] = await Promise.all([open('database'), open('database')]);
    expect(other).toBe(one);
    expect(await open('database')).toBe(one);
    expect(opened).toEqual(['database']);
  });

  it('are opened again after a failure, which only the first caller gets', async () => {
    const { open, opened } = setup();
    const failing = open('database', { ready: () => Promise.reject(new Error('refused')) });
    await expect(failing).rejects.toThrow('refused');
    await open('database');
    expect(opened).toEqual(['database']);
  });

  it('are closed in reverse order, also when one close fails or hangs', async () => {
    const { open, closed, warned, resources, never, time } = setup();
    await open('database');
    await open('broker', { farewell: () => Promise.reject(new Error('reset')) });
    await open('ledger', { farewell: () => never });
    const done = resources.close();
    await time.runUntil(CLOSE_TIMEOUT_MS - 1);
    expect(closed).toEqual(['ledger']);
    await time.runUntil(CLOSE_TIMEOUT_MS);
    await done;
    expect(closed).toEqual(['ledger', 'broker', 'database']);
    expect(warned).toEqual([
      { resource: 'ledger' },
      { resource: 'broker', error: new Error('reset') },
    ]);
  });

  it('are closed once, and both callers of close() wait for the same end', async () => {
    const { open, closed, resources } = setup();
    let leave: () => void = () => undefined;
    await open('database', { farewell: () => new Promise(resolve => (leave = resolve)) });
    let ended = 0;
    const both = [resources.close(), resources.close()].map(one => one.then(() => ended++));
    await new Promise(setImmediate);
    expect(ended).toBe(0);
    leave();
    await Promise.all(both);
    await resources.close();
    expect(closed).toEqual(['database']);
  });

  it('are not opened after close()', async () => {
    const { open, opened, resources } = setup();
    await resources.close();
    await expect(open('database')).rejects.toMatchObject({ code: 'ERR_CLOSED' });
    expect(opened).toEqual([]);
  });

  it('that are being opened are awaited, then closed', async () => {
    const { open, closed, resources } = setup();
    let arrive: () => void = () => undefined;
    const opening = open('database', { ready: () => new Promise(resolve => (arrive = resolve)) });
    const done = resources.close();
    arrive();
    await Promise.all([opening, done]);
    expect(closed).toEqual(['database']);
  });

  it('that open after close() has given up waiting are closed at once', async () => {
    const { open, closed, resources, time } = setup();
    let arrive: () => void = () => undefined;
    await open('database');
    const opening = open('broker', { ready: () => new Promise(resolve => (arrive = resolve)) });
    const done = resources.close();
    await time.runUntil(CLOSE_TIMEOUT_MS);
    await done;
    expect(closed).toEqual(['database']);
    arrive();
    await opening;
    await new Promise(setImmediate);
    expect(closed).toEqual(['database', 'broker']);
  });
});
