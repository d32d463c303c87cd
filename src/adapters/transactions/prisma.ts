import type { TransactionAdapter } from '../../outbox/transaction-adapter.ts';
import { notInTransaction } from '../../outbox/transaction-adapter.ts';
import type { AnswerOptions } from './answer-limit.ts';
import { createLibraryAdapter, has, type LibraryDialect } from './library-adapter.ts';

/** The part of a Prisma transaction that is used. It has no `$connect`: that is how a client differs from it. */
export interface PrismaTransactionLike {
  $queryRawUnsafe(text: string, ...values: unknown[]): PromiseLike<unknown>;
  readonly $connect?: never;
}

/** A client has all members of its own transactions, so that only this tells them apart. */
export interface NoClient {
  readonly $connect?: never;
}

/** The part of a Prisma client that is used; `Tx` is inferred from what `$transaction` hands out. */
export interface PrismaLike<Tx> {
  $transaction<T>(fn: (tx: Tx) => Promise<T>): Promise<T>;
}

/** Options of `fromPrisma`. */
export interface FromPrismaOptions extends AnswerOptions {
  /** What the database of the client speaks. */
  readonly dialect: LibraryDialect;
}

/**
 * Sends inside transactions of Prisma 7. A `tx` is what `prisma.$transaction(async tx => …)` hands out; the form with an
 * array has none. Prisma ends a transaction after 5 s unless `transactionOptions` of the client say otherwise. The
 * server checks with every send that it is in a transaction.
 *
 * @example
 * const outlast = createOutlast({ adapter: fromPrisma(prisma, { dialect: 'postgres' }) });
 */
export function fromPrisma<Tx extends PrismaTransactionLike>(
  prisma: PrismaLike<Tx>,
  { dialect, ...options }: FromPrismaOptions,
): TransactionAdapter<Tx & NoClient> {
  return createLibraryAdapter<Tx & NoClient>(
    {
      dialect,
      run: async (tx, text, values) => await tx.$queryRawUnsafe(text, ...values),
      begin: fn => prisma.$transaction(tx => fn(tx)),
      status: tx => {
        if (has(tx, '$connect')) return 'pool';
        return has(tx, '$queryRawUnsafe') ? 'unknown' : 'none';
      },
      driverError,
    },
    options,
  );
}

interface PrismaError {
  readonly code?: unknown;
  readonly meta?: {
    readonly driverAdapterError?: {
      readonly cause?: { readonly originalCode?: string; readonly originalMessage?: string };
    };
  };
}

/** `P2028`: the transaction is over. For errors of the server Prisma keeps number and message. */
function driverError(error: unknown): unknown {
  const { code, meta } = (error ?? {}) as PrismaError;
  if (code === 'P2028') return notInTransaction('none');
  const { originalCode, originalMessage } = meta?.driverAdapterError?.cause ?? {};
  if (originalCode === undefined) return error;
  const isState = /^[0-9A-Z]{5}$/.test(originalCode);
  const found = isState ? { code: originalCode } : { errno: Number(originalCode) };
  return Object.assign(new Error(originalMessage, { cause: error }), found);
}
