import { describe, expect, it } from 'vitest';
import { systemClock } from '../runtime/clock.ts';
import { silentLogger } from '../telemetry/logger.ts';
import { RoomPool } from './room-pool.ts';
import type { Room, RoomMode, StopSignals } from './room.ts';

interface FakeRoom extends Room {
  readonly number: number;
  end(): void;
}

function setup(limit: number, tasks: readonly string[] = ['a']) {
  const rooms: FakeRoom[] = [];
  const open = (mode: RoomMode): Promise<Room> => {
    const number = rooms.length;
    let end = (): void => undefined;
    let isOpen = true;
    const ended = new Promise<Error>(resolve => {
      end = () => {
        isOpen = false;
        resolve(new Error('gone'));
      };
    });
    const room: FakeRoom = {
      number,
      mode,
      tasks: new Set(tasks),
      rssBytes: 0,
      get isOpen() {
        return isOpen;
      },
      ended,
      post: () => undefined,
      listen: () => undefined,
      kill: async () => {
        end();
        await ended;
      },
      end: () => end(),
    };
    rooms.push(room);
    return Promise.resolve(room);
  };
  const worn = new Set<Room>();
  const pool = new RoomPool({
    runtime: { log: silentLogger, clock: systemClock },
    limit,
    open,
    isWornOut: room => worn.has(room),
  });
  const enter = async (mode: RoomMode = 'thread', stop = neverStopped()): Promise<FakeRoom> => {
    const room = await pool.enter(mode, stop);
    if (room === null) throw new Error('no room');
    return room as FakeRoom;
  };
  return { pool, rooms, worn, enter };
}

const neverStopped = (): StopSignals => ({
  signal: new AbortController().signal,
  draining: new AbortController().signal,
});

describe('a pool of rooms', () => {
  it('gives a room again that was left, of the same mode only', async () => {
    const { pool, enter } = setup(3);
    const first = await enter();
    pool.leave(first);
    expect((await enter('process')).number).toBe(1);
    expect((await enter()).number).toBe(first.number);
    expect((await enter()).number).toBe(2);
  });

  it('lets no more in than its limit, and admits in the order of arrival', async () => {
    const { pool, rooms, enter } = setup(1);
    const first = await enter();
    const seen: string[] = [];
    const second = enter().then(room => (seen.push('second'), room));
    const third = enter().then(room => (seen.push('third'), room));
    await Promise.resolve();
    expect(seen).toEqual([]);
    pool.leave(first);
    pool.leave(await second);
    await third;
    expect(seen).toEqual(['second', 'third']);
    expect(rooms).toHaveLength(1);
  });

  it.each(['signal', 'draining'] as const)('lets go of who waits when its %s fires', async name => {
    const { pool, enter } = setup(1);
    const first = await enter();
    const controller = new AbortController();
    const waiting = pool.enter('thread', { ...neverStopped(), [name]: controller.signal });
    controller.abort();
    expect(await waiting).toBeNull();
    // The place it did not take is there for the next.
    const next = enter();
    pool.leave(first);
    expect((await next).number).toBe(first.number);
  });

  it('does not use a room again that has ended or is worn out', async () => {
    const { pool, worn, rooms, enter } = setup(1);
    const first = await enter();
    first.end();
    pool.leave(first);
    const second = await enter();
    expect(second.number).toBe(1);
    worn.add(second);
    pool.leave(second);
    expect(rooms[1]?.isOpen).toBe(false);
    const third = await enter();
    pool.leave(third);
    third.end();
    await third.ended;
    expect((await enter()).number).toBe(3);
  });

  it('frees the place of a room that could not be opened', async () => {
    let tries = 0;
    const pool = new RoomPool({
      runtime: { log: silentLogger, clock: systemClock },
      limit: 1,
      open: () => {
        tries += 1;
        return Promise.reject(new Error('no'));
      },
      isWornOut: () => false,
    });
    for (const _ of [1, 2])
      await expect(pool.enter('thread', neverStopped())).rejects.toThrow('no');
    expect(tries).toBe(2);
  });

  it('refuses to start where a room does not find the handlers', async () => {
    const { pool, rooms } = setup(1, ['a']);
    await pool.prepare('thread', ['a']);
    await expect(pool.prepare('process', ['a', 'b'])).rejects.toMatchObject({
      code: 'ERR_HANDLER_NOT_LOADABLE',
      message: expect.stringContaining("the handler of b has mode 'process'") as string,
    });
    expect(rooms.map(room => room.isOpen)).toEqual([true, false]);
    await pool.close();
    expect(rooms.map(room => room.isOpen)).toEqual([false, false]);
  });
});
