import { fromDatabase } from '../adapters/sql/sql-transaction.ts';
import { LimitBook } from '../admission/limits.ts';
import type { SentCall } from '../outbox/compose-call.ts';
import { anywhere } from '../outbox/inside-transaction.ts';
import { Producer } from '../outbox/producer.ts';
import { systemRandom } from '../runtime/random.ts';
import { systemClock } from '../runtime/clock.ts';
import { silentLogger } from '../telemetry/logger.ts';
import type { Call } from '../task/define-task.ts';
import { dialectRow } from '../config/database-url.ts';
import type { Context } from '../context/context.ts';
import { loadDialect } from '../context/openers.ts';

/** Sends calls through the outbox in a separate transaction: for commands, which have no transaction to join. */
export async function sendCalls(
  context: Context,
  calls: readonly Call[],
): Promise<readonly SentCall[]> {
  const { redact, config, outbox } = context;
  const { maxPayloadBytes, keyring } = config;
  const target = outbox?.target ?? config.database;
  const { db } = await context.outboxDatabase();
  const adapter = fromDatabase(() => Promise.resolve(db), dialectRow(target).language);
  const dialect = await loadDialect(target);
  const producer = new Producer({
    adapter,
    writer: dialect.writer(anywhere(adapter)),
    lenientWriter: null,
    sameDatabase: null,
    // No task is excluded from the outbox, so none goes straight to the broker.
    broker: () => Promise.reject(new Error('not asked for')),
    admission: () => Promise.reject(new Error('not asked for')),
    book: new LimitBook(config.admission),
    random: systemRandom,
    clock: systemClock,
    log: silentLogger,
    strict: true,
    excludeTasks: [],
    maxPayloadBytes,
    redact,
    keyring,
    // A command sends single tasks only.
    chordQueue: null,
    notesChords: false,
    parent: () => null,
  });
  return await adapter.transaction(tx => producer.send(tx, calls));
}
