import { describe, expect, it } from 'vitest';
import {
  afterDone,
  afterEnded,
  checkFollowUps,
  chordBody,
  type FollowDeps,
} from '../../src/ledger/follow-up.ts';
import { weighSignature } from '../../src/ledger/weigh-follow-ups.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import { NO_KEYS } from '../../src/task/keyring.ts';
import { toBytes } from '../../src/task/json.ts';
import { makeEnvelope } from '../conformance/envelopes.ts';
import { queueWorker } from '../support/queue-worker.ts';

const TOO_LARGE: unknown = expect.objectContaining({ code: 'ERR_FOLLOW_UPS_TOO_LARGE' });
const DEPS: FollowDeps = {
  nowMs: 0,
  queueOf: () => null,
  redact: null,
  keyring: NO_KEYS,
  answers: true,
};

const list = (count: number, text: string): string => `[${Array(count).fill(text).join(',')}]`;
const sig = (bytes = 0): string => `{"task":"x","args":["${'A'.repeat(bytes)}"]}`;
const group = (tasks: string): string => `{"task":"celery.group","kwargs":{"tasks":${tasks}}}`;
const chain = (tasks: string): string => `{"task":"celery.chain","kwargs":{"tasks":${tasks}}}`;
const chord = (header: string, body: string): string =>
  `{"task":"celery.chord","kwargs":{"header":${header},"body":${body}}}`;
const links = (callbacks: string): string =>
  `{"callbacks":${callbacks},"errbacks":null,"chain":null,"chord":null}`;
const nested = (depth: number, wrap: (tasks: string) => string, inside = sig()): string =>
  Array.from({ length: depth }).reduce<string>(text => wrap(`[${text}]`), inside);

const arriving = (embed: string, options = '{}'): Envelope =>
  makeEnvelope({ queue: 'q', embed, options: toBytes(options) });

const BOMBS: readonly (readonly [string, string])[] = [
  [
    'a chord whose large body each task of its header would carry',
    links(`[${chord(list(2_000, sig()), sig(40_000))}]`),
  ],
  [
    'the same as the next of a chain',
    `{"callbacks":null,"errbacks":null,"chain":[${chord(list(2_000, sig()), sig(40_000))}],"chord":null}`,
  ],
  [
    'a chord in a group in a chain',
    links(`[${chain(`[${group(`[${chord(list(1_000, sig()), sig(40_000))}]`)}]`)}]`),
  ],
  [
    'a chord in the header of a chord',
    links(`[${chord(list(50, chord(list(50, sig()), sig(20_000))), sig(20_000))}]`),
  ],
  ['more links than anybody sends', links(list(10_001, sig()))],
  ['groups of groups', links(`[${group(list(101, group(list(100, sig()))))}]`)],
  [
    'more error links than anybody sends',
    `{"callbacks":null,"errbacks":${list(10_001, sig())},"chain":null,"chord":null}`,
  ],
];

describe('a message with too many follow-ups', () => {
  it.each(BOMBS)('is refused before any follow-up is created: %s', (_, embed) => {
    expect(() => checkFollowUps(arriving(embed))).toThrow(TOO_LARGE);
  });

  it.each(BOMBS)(
    'is a dead letter with that reason, runs nothing and sends nothing: %s',
    async (_, embed) => {
      const { time, published, arrive, inState, handled } = queueWorker();
      await arrive([
        arriving(embed),
        arriving(links('[{"task":"next","options":{"queue":"elsewhere"}}]')),
      ]);
      await time.runUntil(5_000);
      expect(inState('dead')).toMatchObject([{ why: 'ERR_FOLLOW_UPS_TOO_LARGE' }]);
      expect([handled(), published.length]).toEqual([1, 1]);
    },
  );

  it('is answered where its sender waits, and sends no error links', async () => {
    const many = list(10_001, sig());
    const embed = `{"callbacks":null,"errbacks":${many},"chain":null,"chord":null}`;
    const envelope = arriving(embed, '{"replyTo":"r"}');
    const ended = afterEnded({ envelope, how: 'dead', epoch: 1 }, DEPS);
    expect(ended.map(({ key }) => key)).toEqual([`${envelope.id}/reply`]);
  });
});

it.each([
  ['groups', nested(40, group)],
  ['chains', nested(40, chain)],
  ['chords', nested(40, tasks => chord(tasks, sig()))],
])('nested %s are bounded before any task is created', (_, text) => {
  expect(() => weighSignature(text, 0)).toThrow(TOO_LARGE);
});

describe('a result that would be copied too often', () => {
  const embed = links(list(100, sig()));

  it('is refused before any copy is created', () => {
    const result = JSON.stringify('A'.repeat(400_000));
    expect(() => afterDone(arriving(embed), result, DEPS)).toThrow(TOO_LARGE);
  });

  it('makes its task a dead letter, and nothing is sent', async () => {
    const { time, published, arrive, inState } = queueWorker({ result: 'A'.repeat(400_000) });
    await arrive([arriving(embed)]);
    await time.runUntil(5_000);
    expect(inState('dead')).toMatchObject([{ why: 'ERR_FOLLOW_UPS_TOO_LARGE' }]);
    expect(published).toEqual([]);
  });

  it('does not count where the links are immutable', () => {
    const immutable = links(list(100, '{"task":"x","immutable":true}'));
    const result = JSON.stringify('A'.repeat(400_000));
    expect(afterDone(arriving(immutable), result, DEPS)).toHaveLength(100);
  });

  it('is not passed to a chord body that consists of many tasks', () => {
    const part = { groupId: 'g', index: 0, size: 50, taskId: 't', result: '1' };
    const parent = { id: 't', rootId: 't', queue: 'q', deadlineMs: null };
    const entry = { key: 'k', part, body: group(list(100, sig())), parent };
    const results = Array.from({ length: 50 }, () => JSON.stringify('A'.repeat(10_000)));
    expect(() => chordBody(entry, { results, isSigned: false }, DEPS)).toThrow(TOO_LARGE);
    const few = { results: results.slice(0, 5), isSigned: false };
    expect(chordBody(entry, few, DEPS)).toHaveLength(100);
  });
});

describe('an ordinary workflow', () => {
  it.each([
    ['ten thousand tasks', links(`[${group(list(10_000, sig()))}]`), 10_000],
    ['a chord of two thousand', links(`[${chord(list(2_000, sig()), sig(1_000))}]`), 2_000],
    ['thirty levels', links(`[${nested(30, group)}]`), 1],
    ['one large link', links(`[${sig(500_000)}]`), 1],
  ])('is sent: %s', (_, embed, count) => {
    const envelope = arriving(embed);
    checkFollowUps(envelope);
    expect(afterDone(envelope, '1', DEPS)).toHaveLength(count);
  });
});
