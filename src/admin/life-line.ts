import type { HistoryEntry } from '../ledger/dead-letter.ts';
import { createdMs } from '../runtime/runtime.ts';
import { hasMark, MARKS } from '../task/marks.ts';
import { readOptions } from '../task/read-options.ts';

/** One moment in the life of a task. */
export interface LifeMoment {
  readonly at: string;
  /**
   * `enqueued`, `claimed`, `published`, `received`, then what the stores have recorded: `begun`, `failed`, `reaped`, `released`,
   * `done`, `dead`, …
   */
  readonly step: string;
  /** Since the moment before; null: it is the first. Below zero: two clocks differ. */
  readonly gapMs: number | null;
  /** Which run it belongs to, from 1; null: it is in no run. */
  readonly run: number | null;
  readonly epoch: number | null;
  readonly worker: string | null;
  /** The error, or how its worker ended. */
  readonly why: string | null;
}

interface Life {
  readonly id: string;
  readonly createdAt: string;
  readonly options: Uint8Array;
  readonly history: readonly HistoryEntry[];
  /** The ledger got it from a broker: `createdAt` is when. */
  readonly isReceived: boolean;
}

/** A task may fail for years: of more moments the first and the latest are shown. */
const [FIRST, LATEST] = [50, 450];

/** All that is known of the life of a task, in the order in which it happened. */
export function lifeLine(life: Life): readonly LifeMoment[] {
  const moments = [...beforeLedger(life), ...inLedger(life.history)];
  const all = moments.map((moment, at) => {
    const before = moments[at - 1];
    const gapMs = before === undefined ? null : Date.parse(moment.at) - Date.parse(before.at);
    return { ...moment, gapMs };
  });
  return all.length <= FIRST + LATEST ? all : [...all.slice(0, FIRST), ...all.slice(-LATEST)];
}

type Moment = Omit<LifeMoment, 'gapMs'>;

const BEFORE = { run: null, epoch: null, worker: null, why: null } as const;
/** Both write the moment itself. */
const ARRIVALS: ReadonlySet<string> = new Set(['arrived', 'relayed']);

function beforeLedger({ id, createdAt, options, history, isReceived }: Life): readonly Moment[] {
  const born = createdMs(id);
  const enqueuedAt = isReceived && born !== null ? iso(born) : createdAt;
  const path = pathOf(options);
  const moments: Moment[] = [];
  const add = (step: string, at: string): void => void moments.push({ ...BEFORE, step, at });
  if (!isReceived || born !== null) add('enqueued', enqueuedAt);
  if (path !== null) {
    add('claimed', iso(path.claimedMs));
    add('published', iso(path.publishedMs));
  }
  if (isReceived && !ARRIVALS.has(history[0]?.step ?? '')) add('received', createdAt);
  return moments;
}

function inLedger(history: readonly HistoryEntry[]): readonly Moment[] {
  let run = 0;
  return history.map(({ at, step, epoch, worker, error }) => {
    if (step === 'begun') run += 1;
    return {
      at,
      step,
      run: run === 0 ? null : run,
      epoch: epoch === 0 ? null : epoch,
      worker: worker ?? null,
      why: error === undefined ? null : `${error.type}: ${error.message}`,
    };
  });
}

/** Written by a relay with `lifeLine`: when it had claimed the row, and when it published the message. */
function pathOf(
  options: Uint8Array,
): { readonly claimedMs: number; readonly publishedMs: number } | null {
  if (!hasMark(options, MARKS.path)) return null;
  const [claimedMs = NaN, publishedMs = NaN] = (readOptions({ options }).path ?? '')
    .split('.')
    .map(Number);
  return Number.isNaN(claimedMs + publishedMs) ? null : { claimedMs, publishedMs };
}

const iso = (ms: number): string => new Date(ms).toISOString();
