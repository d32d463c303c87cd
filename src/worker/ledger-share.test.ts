import { expect, it } from 'vitest';
import { LedgerShare } from './ledger-share.ts';

function setup() {
  let nowMs = 1_000;
  const share = new LedgerShare({ monotonic: () => nowMs }, 50);
  return { share, pass: (ms: number) => (nowMs += ms) };
}

it('is half of the places now and then, and none in between while nothing comes back', () => {
  const { share, pass } = setup();
  expect(share.of(50)).toBe(25);
  share.note(25, 0);
  expect(share.of(50)).toBe(0);
  share.note(0, 0);
  pass(200);
  expect(share.of(9)).toBe(4);
});

it('stays as long as the ledger has more than was asked for', () => {
  const { share } = setup();
  share.of(10);
  share.note(5, 5);
  expect(share.of(10)).toBe(5);
  share.note(5, 4);
  expect(share.of(10)).toBe(0);
});

it('is no more than runs at once, until the ledger has shown that it has more', () => {
  const { share } = setup();
  expect([share.of(400), share.limit(400)]).toEqual([50, 50]);
  share.note(50, 50);
  expect([share.of(400), share.limit(400)]).toEqual([200, 400]);
  share.note(200, 199);
  expect(share.limit(400)).toBe(50);
});

it('of a single place goes to ledger and broker in turn', () => {
  const { share } = setup();
  const turns = [1, 2, 3, 4].map(() => {
    const kept = share.of(1);
    share.note(kept, kept);
    return kept;
  });
  expect(turns).toEqual([1, 0, 1, 0]);
});
