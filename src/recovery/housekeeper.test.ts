import { describe, expect, it } from 'vitest';
import { MemoryIdempotencyStore } from '../testing/memory/memory-idempotency-store.ts';
import { MemoryLedger } from '../testing/memory/memory-ledger.ts';
import { MemoryLedgerReads } from '../testing/memory/memory-ledger-reads.ts';
import { outlastError } from '../errors/error.ts';
import type { PurgeRequest } from '../outbox/outbox-store.ts';
import { type Runtime, noFaults, systemRandom } from '../runtime/runtime.ts';
import type { Envelope } from '../task/envelope.ts';
import { makeEnvelopes } from '../../test/conformance/envelopes.ts';
import { noEvents } from '../telemetry/events.ts';
import { silentLogger } from '../telemetry/logger.ts';
import { type DeadLetterAge, Housekeeper, type KeptOutbox } from './housekeeper.ts';

const MONTH: DeadLetterAge = {
  olderThanDeadMs: 2_592_000_000,
  olderThanCreatedMs: null,
  taskName: null,
};

/** An outbox with this many dead letters. It counts the calls. */
class CountingOutbox implements KeptOutbox {
  letters: number;
  isAway = false;
  readonly requests: PurgeRequest[] = [];
  pruned = 0;

  constructor(letters: number) {
    this.letters = letters;
  }

  async prune(): Promise<number> {
    if (this.isAway)
      throw outlastError('ERR_STORE_UNAVAILABLE', { message: 'away', hint: '', fields: {} });
    this.pruned += 1;
    return 0;
  }

  async wake(): Promise<void> {}

  async abandonChords(): Promise<readonly string[]> {
    return [];
  }

  async purgeDeadLetters(request: PurgeRequest) {
    this.requests.push(request);
    const count = Math.min(request.limit, this.letters);
    this.letters -= count;
    return { counts: count === 0 ? [] : [{ name: 'a', count }] };
  }

  purgeDead(request: PurgeRequest) {
    return this.purgeDeadLetters(request);
  }
}

function setup(letters: number, deadLetterAge: DeadLetterAge | null = MONTH) {
  let nowMs = 1_000_000;
  const clock = { now: () => nowMs, monotonic: () => nowMs, timer: () => () => undefined };
  const runtime: Runtime = {
    clock,
    random: systemRandom,
    faultPoint: noFaults,
    log: silentLogger,
    emit: noEvents,
  };
  const [ledger, outbox] = [new CountingOutbox(0), new CountingOutbox(letters)];
  const keeper = new Housekeeper({
    ledger,
    keys: null,
    outbox,
    deadLetterAge,
    runtime,
  });
  return { keeper, ledger, outbox, advance: (ms: number) => void (nowMs += ms) };
}

describe('a housekeeper', () => {
  it('deletes dead letters in chunks, from the configured age on', async () => {
    const { keeper, outbox } = setup(2_500);
    await keeper.look();
    expect(outbox.letters).toBe(0);
    expect(outbox.requests).toEqual(
      Array.from({ length: 3 }, () => ({ ...MONTH, limit: 1_000, isDryRun: false })),
    );
  });

  it('looks for old dead letters once a minute, and prunes tombstones at every look', async () => {
    const { keeper, outbox, advance } = setup(0);
    for (let look = 0; look < 3; look++) await keeper.look();
    expect([outbox.pruned, outbox.requests.length]).toEqual([3, 1]);
    advance(60_000);
    await keeper.look();
    expect(outbox.requests.length).toBe(2);
  });

  it('goes on at the next look when there is more than one look may take', async () => {
    const { keeper, outbox } = setup(30_000);
    await keeper.look();
    expect(outbox.letters).toBe(10_000);
    await keeper.look();
    expect(outbox.letters).toBe(0);
  });

  it('deletes no dead letters when no age is configured', async () => {
    const { keeper, outbox } = setup(5, null);
    await keeper.look();
    expect([outbox.letters, outbox.pruned]).toEqual([5, 1]);
  });

  it('cleans up one store when the other is away', async () => {
    const { keeper, ledger, outbox } = setup(5);
    ledger.isAway = true;
    await keeper.look();
    expect([ledger.pruned, outbox.pruned, outbox.letters]).toEqual([0, 1, 0]);
  });
});

describe('chords that were never completed', () => {
  it('are logged with their number when they are deleted', async () => {
    let nowMs = Date.UTC(2026, 0, 1);
    const clock = { now: () => nowMs, monotonic: () => nowMs, timer: () => () => undefined };
    const warnings: unknown[] = [];
    const log = { ...silentLogger, warn: (fields: unknown) => void warnings.push(fields) };
    const runtime = { clock, random: systemRandom, faultPoint: noFaults, log, emit: noEvents };
    const ledger = new MemoryLedger({ clock });
    const outbox = new CountingOutbox(0);
    const keeper = new Housekeeper({ ledger, keys: null, outbox, deadLetterAge: null, runtime });
    await ledger.joinChord({ groupId: 'g', index: 0, size: 2, taskId: 't', result: '1' });
    await keeper.look();
    expect(warnings).toEqual([]);
    nowMs += 8 * 86_400_000;
    await keeper.look();
    expect(warnings).toEqual([{ count: 1, groups: ['g'] }]);
  });
});

describe('orphaned idempotency keys', () => {
  const HOUR = 3_600_000;

  it('are freed when their holder has ended, and the waiting task becomes due', async () => {
    let nowMs = Date.UTC(2026, 0, 1);
    const clock = { now: () => nowMs, monotonic: () => nowMs, timer: () => () => undefined };
    const runtime = {
      clock,
      random: systemRandom,
      faultPoint: noFaults,
      log: silentLogger,
      emit: noEvents,
    };
    const ledger = new MemoryLedger({ clock });
    const store = new MemoryIdempotencyStore(clock);
    const keeper = new Housekeeper({
      ledger,
      keys: { store, reads: new MemoryLedgerReads(ledger) },
      outbox: new CountingOutbox(0),
      deadLetterAge: null,
      runtime,
    });
    const [alive, ended, waiting] = makeEnvelopes(3, {}) as [Envelope, Envelope, Envelope];
    await ledger.park([
      { envelope: alive, delayMs: 0 },
      { envelope: ended, delayMs: 0 },
      { envelope: waiting, delayMs: 100 * HOUR },
    ]);
    const asking = (key: string, { id }: Envelope) =>
      store.acquire({ key, digest: 'd', taskId: id, epoch: 1, run: 'r' });
    await asking('a', alive);
    await asking('b', ended);
    await asking('b', waiting);
    await ledger.cancel(ended.id);
    await keeper.look();
    expect(await store.read('b')).not.toBeNull();
    nowMs += 2 * HOUR;
    await keeper.look();
    expect(await store.read('a')).not.toBeNull();
    expect(await store.read('b')).toBeNull();
    // Since it was sent: it keeps its position.
    expect(ledger.state.records.get(waiting.id)?.dueMs).toBeLessThanOrEqual(nowMs);
  });
});
