import { describe, expect, it, onTestFinished } from 'vitest';
import { MemoryBroker } from '../testing/memory/memory-broker.ts';
import { MemoryLedger } from '../testing/memory/memory-ledger.ts';
import { MemoryLedgerReads } from '../testing/memory/memory-ledger-reads.ts';
import {
  type Clock,
  noFaults,
  startService,
  systemClock,
  systemRandom,
} from '../runtime/runtime.ts';
import { type ChordPosition, chordLinks } from '../task/chord-link.ts';
import { digestOf } from '../task/digest.ts';
import type { Envelope } from '../task/envelope.ts';
import { toBytes, toText } from '../task/json.ts';
import { Keyring, NO_KEYS } from '../task/keyring.ts';
import { readSignature } from '../task/signature.ts';
import { noEvents } from '../telemetry/events.ts';
import { silentLogger } from '../telemetry/logger.ts';
import { unique } from '../../test/conformance/envelopes.ts';
import { until } from '../../test/support/database.ts';
import { letterIdOf } from '../ledger/dead-letter.ts';
import { ChordParts } from './chord-parts.ts';

const QUEUE = 'chords';
const key = (secret: string) => ({ id: 'k', secret: toBytes(secret.repeat(32)) });

function setup(keyring: Keyring = NO_KEYS, clock: Clock = systemClock) {
  const ledger = new MemoryLedger({ clock: systemClock });
  let [isFull, refused] = [false, 0];
  const queueing = new MemoryBroker({
    refuse: () => {
      if (isFull) refused += 1;
      return isFull ? 'full' : null;
    },
  });
  const broker = queueing.connect();
  const runtime = {
    clock,
    random: systemRandom,
    faultPoint: noFaults,
    log: silentLogger,
    emit: noEvents,
  };
  const counting = new ChordParts({ broker, ledger, queue: QUEUE, runtime, keyring });
  const start = (): void => {
    const service = startService(signal => counting.run(signal));
    onTestFinished(() => service.stop());
  };
  const reads = new MemoryLedgerReads(ledger);
  return {
    start,
    fill: (isNow: boolean): void => void (isFull = isNow),
    refused: () => refused,
    publish: async (message: Envelope) => {
      expect(await queueing.connect().publish([message])).toEqual([{ status: 'confirmed' }]);
    },
    open: async () => (await reads.openChords(10)).oldest,
    letters: async () =>
      (
        await reads.listDead({ limit: 10, cursor: null, order: 'newest', taskName: null })
      ).items.map(({ id, reason }) => [id, reason]),
    sent: async (queue: string) =>
      (await broker.take([queue], 10)).map(({ message }) => message as Envelope),
  };
}

/** A chord of two whose body goes to a queue of its own. */
function chordOf(keyring: Keyring = NO_KEYS) {
  const [groupId, bodies] = [unique('group'), unique('bodies')];
  const options = { task_id: `${groupId}-body`, queue: bodies, link_error: [errorLink(bodies)] };
  const body = JSON.stringify({ task: 'sum', args: [], kwargs: {}, options, chord_size: 2 });
  const message = (index: number, argument: string, kind: 'done' | 'failed' = 'done'): Envelope => {
    const position: ChordPosition = { groupId, index, size: 2, body };
    const { task, kwargs } = readSignature(
      chordLinks(position, `part-${index}`, { queue: QUEUE, keyring })[kind],
    );
    // As Python writes it.
    return partMessage(task, `[[${argument}], ${kwargs}, {"callbacks": null}]`);
  };
  return { groupId, bodies, message };
}

const errorLink = (queue: string) => ({ task: 'alarm', args: [], kwargs: {}, options: { queue } });

function partMessage(name: string, text: string): Envelope {
  const named = { id: unique('part'), name, version: 1, body: toBytes(text) };
  const options = toBytes(JSON.stringify({ parentId: 'part', rootId: 'root' }));
  const rest = { queue: QUEUE, priority: 0, etaMs: null, expiresMs: null };
  return { ...named, ...rest, options, digest: digestOf(named) };
}

describe('a part of a chord that Python reports', () => {
  it('is counted, and the last one sends the body with the results byte for byte', async () => {
    const { start, publish, sent } = setup();
    const { bodies, groupId, message } = chordOf();
    await publish(message(1, '1.0'));
    await publish(message(0, '12345678901234567890'));
    start();
    const [body] = await until(async () => {
      const found = await sent(bodies);
      return found.length > 0 && found;
    });
    expect(body?.id).toBe(`${groupId}-body`);
    expect(toText(body?.body ?? toBytes(''))).toContain('[[12345678901234567890,1.0]]');
  });

  it('is redelivered until the broker has taken the follow-up', async () => {
    const { start, publish, sent, fill, open } = setup();
    const { bodies, message } = chordOf();
    await publish(message(0, '1'));
    await publish(message(1, '2'));
    fill(true);
    start();
    await until(async () => (await open()).length === 0);
    expect(await sent(bodies)).toEqual([]);
    fill(false);
    await until(async () => (await sent(bodies)).length === 1);
  });

  it('is not handled again at once when it is redelivered at once', async () => {
    const waits: number[] = [];
    const timer: Clock['timer'] = ms => {
      waits.push(ms);
      return () => undefined;
    };
    const { start, publish, fill, refused } = setup(NO_KEYS, { ...systemClock, timer });
    const { message } = chordOf();
    for (const index of [0, 1]) await publish(message(index, '1'));
    fill(true);
    start();
    await until(async () => waits.length > 0);
    // The requeued message has woken the loop already: one turn would be enough to handle it again.
    await new Promise(setImmediate);
    expect(refused()).toBe(1);
  });

  it('hands a result on that JSON does not have', async () => {
    const { start, publish, sent } = setup();
    const { bodies, message } = chordOf();
    await publish(message(0, 'NaN'));
    await publish(message(1, '-Infinity'));
    start();
    const [body] = await until(async () => {
      const found = await sent(bodies);
      return found.length > 0 && found;
    });
    expect(toText(body?.body ?? toBytes(''))).toContain('[[NaN,-Infinity]]');
  });

  it('runs the error links of the body if it failed', async () => {
    const { start, publish, sent, letters, open } = setup();
    const { bodies, groupId, message } = chordOf();
    await publish(message(0, '"part-0"', 'failed'));
    start();
    await until(async () =>
      (await sent(bodies)).some(
        ({ name, body }) => name === 'alarm' && toText(body).startsWith(`[["${groupId}-body"]`),
      ),
    );
    expect(await letters()).toEqual([[`${groupId}-body#chord`, 'ERR_CHORD_FAILED']]);
    expect(await open()).toMatchObject([{ groupId, parts: 0, failed: 1 }]);
  });

  it('becomes a dead letter when it cannot be read', async () => {
    const { start, publish, letters, open } = setup();
    const { message } = chordOf();
    const [unknownName, badIndex] = [
      { ...message(0, '1'), name: 'other.task' },
      partMessage('outlast.chord_part', '[[1],{"group":"g","place":2,"size":2,"body":"{}"},{}]'),
    ];
    await publish(unknownName);
    await publish(badIndex);
    start();
    await until(async () => (await letters()).length === 2);
    expect((await letters()).map(([, reason]) => reason)).toEqual(Array(2).fill('ERR_UNDECODABLE'));
    expect(await open()).toEqual([]);
  });

  it('becomes a dead letter when no ledger can count it or its body cannot be sent', async () => {
    const { start, publish, letters, sent } = setup();
    const { bodies, message } = chordOf();
    const at = (position: string, body: string): Envelope =>
      partMessage('outlast.chord_part', `[[1],{${position},"body":${JSON.stringify(body)}},{}]`);
    const plain = '{"task":"sum","args":[],"kwargs":{},"options":{}}';
    await publish(at('"group":"a\\u0000b","place":0,"size":2', plain));
    await publish(at('"group":"g","place":3000000000,"size":4000000000', plain));
    await publish(at('"group":"g","place":0,"size":1', '{"task":"celery.chord","kwargs":{}}'));
    await publish({
      ...at('"group":"g","place":0,"size":2', plain),
      options: toBytes('{"parentId":"a\\u0000b"}'),
    });
    for (const index of [0, 1]) await publish(message(index, '1'));
    start();
    await until(async () => (await sent(bodies)).length === 1);
    expect((await letters()).map(([, reason]) => reason)).toEqual(Array(4).fill('ERR_UNDECODABLE'));
  });

  it('becomes a dead letter under another id when tasks are signed and its chord is not', async () => {
    const [own, other] = [new Keyring([key('a')]), new Keyring([key('b')])];
    const { start, publish, letters, open } = setup(own);
    const [mine, forged] = [chordOf(own), chordOf(other)];
    const [bad, bare] = [forged.message(0, '1'), chordOf().message(0, '1')];
    await publish(bad);
    await publish(bare);
    await publish(mine.message(0, '1'));
    start();
    await until(async () => (await open()).length === 1);
    expect(await open()).toMatchObject([{ groupId: mine.groupId }]);
    await until(async () => (await letters()).length === 2);
    // The sender chooses the id: a letter under it would block the task that has this id.
    expect(new Set(await letters())).toEqual(
      new Set([bad, bare].map(message => [letterIdOf(message), 'ERR_DIGEST'])),
    );
  });

  it('makes the body of its chord an unsigned task, because its result is not proved', async () => {
    const keyring = new Keyring([key('a')]);
    const { start, publish, sent } = setup(keyring);
    const { bodies, message } = chordOf(keyring);
    for (const index of [0, 1]) await publish(message(index, '1'));
    start();
    const [body] = await until(async () => {
      const found = await sent(bodies);
      return found.length > 0 && found;
    });
    expect(body && keyring.refusalOf(body)).toMatch('not signed');
  });
});
