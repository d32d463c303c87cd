import {
  compareLetters,
  cursorAfter,
  readCursor,
  type DeadLetterDetails,
  type DeadLetterPage,
  type DeadLetterSummary,
  type Failing,
  type LetterPageRequest,
  type TaskDetails,
} from '../../ledger/dead-letter.ts';
import type { LedgerReads, LedgerSample, TaskMoment } from '../../ledger/ledger-reads.ts';
import type { TaskState } from '../../ledger/ledger.ts';
import type { ObjectiveCounts, TaskTotals } from '../../ledger/tallies.ts';
import type { OpenChords } from '../../ledger/open-chord.ts';
import {
  tenantIn,
  type Slice,
  type TaskRecordView,
  type WalkRequest,
} from '../../ledger/task-line.ts';
import { globPattern } from '../../task/glob.ts';
import { shownPayload } from '../../task/redacted.ts';
import type { RedisChords } from './redis-chords.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';
import { walkDead } from './redis-purge.ts';
import { unpack } from './redis-pack.ts';
import { findRecord, mostInformative, type FoundRecord, type RootsOf } from './redis-find.ts';
import { readRecord, type StoredRecord } from './redis-record.ts';
import { objectives, totals } from './redis-tallies.ts';
import { viewOf, walk } from './redis-walk.ts';

/** Names read from each root for the most failing tasks: sums over several roots need more than the top. */
const MOST_FAILING = 1_000;

/** The read side of a ledger in Redis, for operators. */
export class RedisLedgerReads implements LedgerReads {
  readonly #connection: RedisConnection;
  readonly #roots: RootsOf;
  readonly #chords: RedisChords;

  constructor(connection: RedisConnection, roots: RootsOf, chords: RedisChords) {
    this.#chords = chords;
    this.#connection = connection;
    this.#roots = roots;
  }

  async sample(top: number): Promise<LedgerSample> {
    const most = top === 0 ? 0 : Math.max(top, MOST_FAILING);
    const samples = await this.#perRoot(async root =>
      readSample(await this.#connection.script(LUA.ledgerSample, [root], [most])),
    );
    const ended = (...endings: readonly string[]): number =>
      sum(samples.flatMap(sample => endings.map(ending => sample.ended.get(ending) ?? 0)));
    const queues = samples.flatMap(sample => sample.queues);
    return {
      tasks: {
        waiting: sum(queues.map(({ waiting }) => waiting)),
        running: sum(queues.map(({ running }) => running)),
        done: ended('done', 'discarded'),
        dead: sum(samples.map(({ dead }) => dead)),
        cancelled: ended('cancelled'),
        expired: ended('expired'),
        purged: ended('purged'),
      },
      queues: queues
        .filter(({ waiting, running }) => waiting + running > 0)
        .toSorted((a, b) => (a.queue < b.queue ? -1 : 1)),
      topFailing: mostFailing(samples.flatMap(({ failing }) => failing)).slice(0, top),
      // The first root has every incarnation, whatever other rows it has.
      workers: samples[0]?.workers ?? 0,
    };
  }

  async listDead(page: LetterPageRequest): Promise<DeadLetterPage> {
    const lists = await this.#perRoot(root => this.#listDead(root, page));
    const sign = page.order === 'newest' ? -1 : 1;
    const all = lists.flat().sort((a, b) => sign * compareLetters(a, b));
    const items = all.slice(0, page.limit);
    const last = items.at(-1);
    return { items, next: all.length > page.limit && last ? cursorAfter(last) : null };
  }

  /** Reads one more than requested, to know whether there is a next page. */
  async #listDead(
    root: string,
    { order, cursor, limit, taskName }: LetterPageRequest,
  ): Promise<DeadLetterSummary[]> {
    const start = cursor === null ? null : readCursor(cursor);
    const fromMs = start === null ? null : Date.parse(start.deadAt);
    const pattern = globPattern(taskName ?? '*');
    const sign = order === 'newest' ? -1 : 1;
    const found: DeadLetterSummary[] = [];
    const letters = walkDead(this.#connection, root, { order, fromMs, beforeMs: null });
    for await (const { id, record } of letters) {
      const letter = summaryOf(id, record);
      const isAfter = start === null || sign * compareLetters(letter, start) > 0;
      if (isAfter && pattern.test(record.name)) found.push(letter);
      if (found.length > limit) break;
    }
    return found;
  }

  async countDead(): Promise<number> {
    return (await this.sample(0)).tasks.dead;
  }

  async showDead(id: string): Promise<DeadLetterDetails | null> {
    const found = await this.#find(id);
    if (found?.record.state !== 'dead') return null;
    const { record } = found;
    return {
      ...summaryOf(id, record),
      expiresAt: record.expiresMs === null ? null : iso(record.expiresMs),
      ...shownPayload({
        body: record.body ?? (await this.#bodyOf(found, id)),
        options: record.options,
        redactedArgs: null,
        redactedKwargs: null,
      }),
      history: record.history,
    };
  }

  async inspect(id: string): Promise<TaskDetails | null> {
    const found = await this.#find(id);
    return found === null ? null : detailsOf(id, found.record);
  }

  async view(id: string): Promise<TaskRecordView | null> {
    const found = await this.#find(id);
    return found === null ? null : await viewOf(this.#connection, found, id);
  }

  async walk(request: WalkRequest): Promise<Slice> {
    return await walk({ connection: this.#connection, roots: await this.#roots() }, request);
  }

  async states(ids: readonly string[]): Promise<readonly (TaskState | null)[]> {
    if (ids.length === 0) return [];
    const perRoot = await this.#perRoot(async root => {
      const keys = ids.map(id => `${root}t:${id}`);
      return (await this.#connection.command('mget', ...keys)) as readonly (Buffer | null)[];
    });
    return ids.map((_, index) => {
      const found = perRoot.flatMap(raws => raws[index] ?? []).map(readRecord);
      return mostInformative(found, record => record)?.state ?? null;
    });
  }

  async recent(limit: number): Promise<readonly TaskDetails[]> {
    const lists = await this.#perRoot(async root => {
      const lines = (await this.#connection.command('get', `${root}newest`)) as Buffer | null;
      const ids = String(lines ?? '')
        .split('\n')
        .slice(0, -1)
        .toReversed()
        .slice(0, limit);
      if (ids.length === 0) return [];
      const keys = ids.map(id => `${root}t:${id}`);
      const raws = (await this.#connection.command('mget', ...keys)) as readonly (Buffer | null)[];
      return raws.flatMap((raw, index) =>
        raw === null ? [] : [detailsOf(ids[index] as string, readRecord(raw))],
      );
    });
    const newest = lists.flat().sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1));
    return newest.slice(0, limit);
  }

  async moments(ids: readonly string[]): Promise<readonly TaskMoment[]> {
    const roots = await this.#roots();
    const moments = ids.map(async id => {
      const found = await findRecord(this.#connection, roots, id);
      if (found === null || isOver(found.record)) return [];
      const { root, record } = found;
      const { deaths: version, owner, state, dueMs } = record;
      const [row, checkpoint] = await Promise.all([
        state === 'running' ? this.#connection.command('hget', `${root}workers`, owner) : null,
        this.#connection.command('get', `${root}c:${id}`),
      ]);
      const process = row === null ? null : processOf(row as Buffer);
      const data = checkpoint === null ? null : new Uint8Array(checkpoint as Buffer);
      return [{ id, version, process, checkpoint: data, dueMs }];
    });
    return (await Promise.all(moments)).flat();
  }

  async totals(): Promise<readonly TaskTotals[]> {
    return await totals(this.#connection, await this.#roots());
  }

  async objectives(): Promise<ObjectiveCounts> {
    return await objectives(this.#connection, await this.#roots());
  }

  async openChords(limit: number): Promise<OpenChords> {
    return await this.#chords.open(limit);
  }

  async #find(id: string): Promise<FoundRecord | null> {
    return await findRecord(this.#connection, await this.#roots(), id);
  }

  async #bodyOf({ root }: FoundRecord, id: string): Promise<Uint8Array> {
    const body = (await this.#connection.command('get', `${root}b:${id}`)) as Buffer | null;
    return new Uint8Array(body ?? []);
  }

  async #perRoot<T>(read: (root: string) => Promise<T>): Promise<T[]> {
    return await Promise.all((await this.#roots()).map(read));
  }
}

const isOver = ({ state }: StoredRecord): boolean => state === 'done' || state === 'cancelled';

/** The row of an incarnation starts with the name of its process. */
function processOf(row: Buffer): string {
  const [process] = unpack(row) as readonly Buffer[];
  return String(process);
}

interface RootSample {
  readonly ended: ReadonlyMap<string, number>;
  readonly dead: number;
  readonly workers: number;
  readonly queues: LedgerSample['queues'];
  readonly failing: readonly Failing[];
}

type SampleReply = readonly [
  ended: readonly Buffer[],
  dead: number,
  workers: number,
  queues: readonly (readonly [Buffer, number, number])[],
  failing: readonly Buffer[],
];

function readSample(reply: unknown): RootSample {
  const [ended, dead, workers, queues, failing] = reply as SampleReply;
  return {
    ended: new Map(inPairs(ended)),
    dead,
    workers,
    queues: queues.map(([queue, waiting, running]) => ({ queue: String(queue), waiting, running })),
    failing: inPairs(failing).map(([name, failures]) => ({ name, failures })),
  };
}

function inPairs(values: readonly Buffer[]): [string, number][] {
  const pairs: [string, number][] = [];
  for (let at = 0; at + 1 < values.length; at += 2) {
    pairs.push([String(values[at]), Number(String(values[at + 1]))]);
  }
  return pairs;
}

function mostFailing(all: readonly Failing[]): Failing[] {
  const sums = new Map<string, number>();
  for (const { name, failures } of all) sums.set(name, (sums.get(name) ?? 0) + failures);
  const rows = [...sums].map(([name, failures]) => ({ name, failures }));
  return rows.sort((a, b) => b.failures - a.failures || (a.name < b.name ? -1 : 1));
}

const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0);
const iso = (ms: number): string => new Date(ms).toISOString();

function summaryOf(id: string, record: StoredRecord): DeadLetterSummary {
  const { name, queue, why, error, endedMs, deaths } = record;
  return {
    id,
    name,
    queue,
    where: 'worker',
    reason: why,
    error: error?.message ?? '',
    deadAt: iso(endedMs),
    version: deaths,
    createdAt: iso(record.createdMs),
    tenant: tenantIn(record.options),
    orderingKey: null,
  };
}

function detailsOf(id: string, record: StoredRecord): TaskDetails {
  const { name, queue, state, epoch, failures, crashes, createdMs, history } = record;
  const createdAt = iso(createdMs);
  return { id, name, queue, state, epoch, failures, crashes, createdAt, history };
}
