import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ChordPart } from '../../src/ledger/ledger.ts';
import { toBytes } from '../../src/task/json.ts';
import { HOUR, makeEnvelope } from '../conformance/envelopes.ts';
import { openTestLedger, type TestLedger } from '../support/redis-ledger.ts';
import { redisUrl } from '../support/servers.ts';

let fixture: TestLedger;

beforeAll(async () => {
  fixture = await openTestLedger(redisUrl(), { celeryResultMs: 12 * HOUR });
});
afterAll(() => fixture.dispose());

const join = (part: ChordPart) => fixture.ledger.joinChord(part);

const openOnes = async (groupId: string) =>
  (await fixture.reads.openChords(1_000)).oldest.filter(one => one.groupId === groupId);

function chordOf(size: number) {
  const groupId = randomUUID();
  const bodyId = randomUUID();
  const key = `celery-taskset-meta-${groupId}`;
  const { connection } = fixture;
  return {
    bodyId,
    part: (index: number, result: string | null): ChordPart => ({
      groupId,
      index,
      size,
      taskId: `ours-${index}`,
      bodyId,
      result,
    }),
    /** As a Celery worker does it; returns how many parts there are. */
    celeryAdds: async (index: number, state: string, result: string): Promise<unknown> => {
      const member = `[1, "theirs-${index}", "${state}", ${result}]`;
      await connection.command('zadd', `${key}.j`, index, member);
      return await connection.command('zcard', `${key}.j`);
    },
    celerySends: async () => {
      const parts = await connection.command('zrange', `${key}.j`, 0, -1);
      await connection.command('del', `${key}.j`, `${key}.t`, `${key}.s`);
      return (parts as readonly Buffer[]).map(String);
    },
    keys: async () => await connection.command('exists', `${key}.j`, `${key}.t`, `${key}.s`),
    size: async () => String(await connection.command('get', `${key}.s`)),
    groupId,
  };
}

describe('a chord that is counted by Celery workers and by Outlast', () => {
  it('reports its results as signed only if none comes from Celery', async () => {
    const signed = (one: ReturnType<ReturnType<typeof chordOf>['part']>) =>
      ({ ...one, isSigned: true }) as const;
    const ours = chordOf(2);
    await join(signed(ours.part(0, '1')));
    expect(await join(signed(ours.part(1, '2')))).toMatchObject({ isSigned: true });
    const both = chordOf(2);
    await both.celeryAdds(0, 'SUCCESS', '1');
    expect(await join(signed(both.part(1, '2')))).toMatchObject({ isSigned: false });
    // Beside a result of ours: which of the two counts was not our choice.
    const beside = chordOf(2);
    await join(signed(beside.part(0, '1')));
    await beside.celeryAdds(0, 'SUCCESS', '"chosen"');
    expect(await join(signed(beside.part(1, '2')))).toMatchObject({ isSigned: false });
  });

  it('is completed here by our last part, with the results of both sides as they were written', async () => {
    const { part, celeryAdds, keys } = chordOf(3);
    expect(await join(part(2, '{"n":1.0}'))).toEqual({ status: 'open' });
    await celeryAdds(1, 'SUCCESS', '1180591620717411303425');
    const complete = {
      status: 'complete',
      results: ['"a"', '1180591620717411303425', '{"n":1.0}'],
      isSigned: false,
    };
    expect(await join(part(0, '"a"'))).toEqual(complete);
    expect(await keys()).toBe(0);
    // Reported again because its answer was lost: the same answer, and nothing is left behind.
    expect(await join(part(0, '"a"'))).toEqual(complete);
    expect(await join(part(2, '{"n":1.0}'))).toEqual(complete);
    expect(await keys()).toBe(0);
  });

  it('is completed by Celery with its last part, and not again when a part of ours is reported twice', async () => {
    const { part, celeryAdds, celerySends, size, keys } = chordOf(2);
    expect(await join(part(0, '1'))).toEqual({ status: 'open' });
    expect(await join(part(0, '1'))).toEqual({ status: 'open' });
    expect(await size()).toBe('2');
    expect(await celeryAdds(1, 'SUCCESS', '2')).toBe(2);
    expect(await celerySends()).toEqual([
      '[1, "ours-0", "SUCCESS", 1]',
      '[1, "theirs-1", "SUCCESS", 2]',
    ]);
    expect(await join(part(0, '1'))).toEqual({ status: 'open' });
    expect(await keys()).toBe(0);
  });

  it('is not completed by a part that a Celery worker ran twice', async () => {
    const { part, celeryAdds } = chordOf(3);
    await celeryAdds(0, 'SUCCESS', '1');
    await celeryAdds(0, 'SUCCESS', '1 ');
    expect(await join(part(1, '2'))).toEqual({ status: 'open' });
    expect(await join(part(2, '3'))).toEqual({
      status: 'complete',
      results: ['1', '2', '3'],
      isSigned: false,
    });
  });

  it('has the results of a group at the end of a chain as one list, whichever language ran its members', async () => {
    const { part, celeryAdds, size, groupId } = chordOf(3);
    // Members of that group have indexes of their own: two parts have index 1.
    const shape = `{"result": [["${groupId}", null], [[["${groupId}", [["first", null], null]], [[["ours-0", null], null], [["ours-1", null], null]]], [["theirs-1", null], null]]]}`;
    await fixture.connection.command('set', `celery-taskset-meta-${groupId}`, shape);
    await join(part(1, '1.0'));
    // Celery writes the size of that group there when it sends it.
    await fixture.connection.command('set', `celery-taskset-meta-${groupId}.s`, 2);
    await celeryAdds(1, 'SUCCESS', '3');
    expect(await join(part(1, '1.0'))).toEqual({ status: 'open' });
    expect(await size()).toBe('3');
    const complete = { status: 'complete', results: ['[2, 1.0]', '3'] };
    expect(await join(part(0, '2'))).toMatchObject(complete);
    expect(await join(part(1, '1.0'))).toMatchObject(complete);
  });

  it('fails with a Celery part, with the error of that part', async () => {
    const { part, celeryAdds } = chordOf(2);
    await celeryAdds(0, 'FAILURE', '{"exc_type": "ValueError", "exc_message": ["no"]}');
    const cause = { type: 'ValueError', message: 'no', traceback: '' };
    const failed = { status: 'failed', taskId: 'theirs-0', cause };
    expect(await join(part(1, '2'))).toEqual(failed);
    expect(await join(part(1, '2'))).toEqual(failed);
    const revoked = chordOf(2);
    await revoked.celeryAdds(0, 'REVOKED', '{"exc_type": "TaskRevokedError", "exc_message": [""]}');
    expect(await join(revoked.part(1, '2'))).toMatchObject({ cause: { type: 'TaskRevokedError' } });
  });

  it('fails with a part of ours, and completes when that part succeeds later', async () => {
    const { part, celeryAdds } = chordOf(2);
    expect(await join(part(0, null))).toEqual({ status: 'failed' });
    // A part that failed here is not counted: Celery must not see the chord as complete.
    expect(await celeryAdds(1, 'SUCCESS', '2')).toBe(1);
    expect(await join(part(0, '1'))).toEqual({
      status: 'complete',
      results: ['1', '2'],
      isSigned: false,
    });
  });

  it('has its size stored before a header that only Celery workers may run is sent', async () => {
    const { groupId, size, celeryAdds, celerySends, keys } = chordOf(2);
    const body = '{"task":"sum","args":[],"kwargs":{},"options":{},"chord_size":2}';
    const embed = `{"callbacks":null,"errbacks":null,"chain":null,"chord":${body}}`;
    const header = {
      ...makeEnvelope(),
      body: toBytes(`[[],{},${embed}]`),
      options: toBytes(JSON.stringify({ groupId, groupIndex: 0 })),
    };
    const announce = () => fixture.ledger.chords.announce([makeEnvelope(), header]);
    await announce();
    expect(await size()).toBe('2');
    expect(await openOnes(groupId)).toMatchObject([{ parts: 0, size: 2, failed: 0 }]);
    // A header that is sent again after its chord was complete does not complete it again.
    await celeryAdds(0, 'SUCCESS', '1');
    await celeryAdds(1, 'SUCCESS', '1');
    await celerySends();
    await announce();
    expect(await keys()).toBe(0);
  });

  it('is listed while it is open, and not after Celery has completed it', async () => {
    const { groupId, part, celeryAdds, celerySends } = chordOf(4);
    await join(part(0, '1'));
    await join(part(1, null));
    await celeryAdds(2, 'FAILURE', 'null');
    expect(await openOnes(groupId)).toMatchObject([{ parts: 1, size: 4, failed: 2 }]);
    await join(part(1, '1'));
    await celeryAdds(3, 'SUCCESS', '1');
    await celerySends();
    expect(await openOnes(groupId)).toEqual([]);
    // Outlast was not notified, so the index still lists it; a look removes it, and it was not abandoned.
    expect(await fixture.ledger.abandonChords(1_000)).not.toContain(groupId);
    expect(await fixture.connection.command('zscore', `${fixture.root}chords`, groupId)).toBeNull();
  });

  it('is deleted with all its keys a week after our last part', async () => {
    const { groupId, part, keys } = chordOf(2);
    await join(part(0, '1'));
    await fixture.advance(8 * 24 * HOUR - 1_000);
    expect(await fixture.ledger.abandonChords(1_000)).toContain(groupId);
    expect([await keys(), await openOnes(groupId)]).toEqual([0, []]);
  });
});
