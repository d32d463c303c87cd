import { describe, expect, it } from 'vitest';
import { letterBeside } from '../../ledger/dead-letter.ts';
import type { BegunTask, ParkItem } from '../../ledger/ledger.ts';
import { noFaults, systemClock, systemRandom } from '../../runtime/runtime.ts';
import { outlastError } from '../../errors/error.ts';
import type { Envelope } from '../../task/envelope.ts';
import { Keyring, NO_KEYS } from '../../task/keyring.ts';
import { noEvents } from '../../telemetry/events.ts';
import { silentLogger } from '../../telemetry/logger.ts';
import { makeEnvelope } from '../../../test/conformance/envelopes.ts';
import { acceptAgain } from './ledger-trust.ts';

const runtime = {
  clock: systemClock,
  random: systemRandom,
  faultPoint: noFaults,
  log: silentLogger,
  emit: noEvents,
};

const begun = (envelope: Envelope): BegunTask => ({
  id: envelope.id,
  epoch: 1,
  run: 'run',
  envelope,
  failures: 0,
  crashes: 0,
  isSuspect: false,
  checkpoint: null,
  checkpointSeq: 0,
});

const refusedOf = (message: Envelope): Envelope => {
  const item = letterBeside(message, 'ERR_DIGEST', 'why');
  return item.kind === 'message' ? item.envelope : message;
};
const ofLedger = (message: Envelope): Envelope => ({
  ...message,
  id: `${message.id}#${message.digest.slice(0, 16)}`,
});

function setup(known: readonly ({ name: string; queue: string } | null)[] = [null]) {
  const parked: ParkItem[] = [];
  const looks = [...known];
  const inspect = async () => {
    const found = looks.length > 1 ? looks.shift() : looks[0];
    return (found ?? null) as never;
  };
  const accept = (envelope: Envelope, keyring: Keyring = NO_KEYS, failure?: Error) =>
    acceptAgain(begun(envelope), {
      ledger: {
        park: async items => {
          if (failure) throw failure;
          parked.push(...items);
        },
      },
      reads: { inspect },
      runtime,
      keyring,
    });
  return { accept, parked };
}

describe('a dead letter under a derived id, when it is retried', () => {
  const message = makeEnvelope();

  it('is parked in the ledger under its original id before it ends', async () => {
    const { accept, parked } = setup();
    expect(await accept(refusedOf(message))).toMatchObject({ kind: 'commit' });
    expect(parked).toMatchObject([{ envelope: { id: message.id, digest: message.digest } }]);
  });

  it('is due at its eta by the clock of the store, not by that of the worker', async () => {
    const { accept, parked } = setup();
    const early = makeEnvelope({ etaMs: systemClock.now() + 60_000 });
    await accept(refusedOf(early));
    expect(parked).toMatchObject([{ envelope: { etaMs: early.etaMs }, delayMs: null }]);
  });

  it('is verified again, and stays a dead letter when it must not run', async () => {
    const { accept, parked } = setup();
    const strict = new Keyring([{ id: 'k', secret: Buffer.alloc(32, 1) }]);
    expect(await accept(refusedOf(message), strict)).toMatchObject({
      kind: 'bury',
      reason: 'ERR_DIGEST',
    });
    expect(parked).toEqual([]);
  });

  it('of a digest conflict stays a dead letter while another task has the id, also one that arrives meanwhile', async () => {
    const other = { name: 'other', queue: 'other' };
    for (const known of [[other], [null, other]]) {
      const { accept } = setup(known);
      expect(await accept(ofLedger(message))).toMatchObject({ kind: 'bury' });
    }
    const { accept } = setup([null, message]);
    expect(await accept(ofLedger(message))).toMatchObject({ kind: 'commit' });
  });

  it('waits while the store is away', async () => {
    const away = outlastError('ERR_STORE_UNAVAILABLE', { message: 'x', hint: 'y', fields: {} });
    expect(await setup().accept(refusedOf(message), NO_KEYS, away)).toMatchObject({
      kind: 'release',
    });
  });

  it('is not confused with a task whose id only looks derived', () => {
    const { accept } = setup();
    expect(accept(message)).toBeNull();
    expect(accept({ ...message, id: `${message.id}#${'a'.repeat(32)}x` })).toBeNull();
    expect(accept({ ...refusedOf(message), digest: 'f'.repeat(64) })).toBeNull();
  });
});
