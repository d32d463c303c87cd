import type {
  AdmissionStore,
  KeyFigures,
  PermitUse,
  RateAsk,
  RateGrant,
  RateRefund,
  Reservation,
  ReservationHolder,
  ReservationWish,
  ReserveReply,
  ReserveRequest,
  SweepReply,
} from '../../admission/admission-store.ts';
import { takeFrom } from '../../admission/gcra.ts';
import { slicesOf } from '../../runtime/wakeable.ts';
import { type Rate, intervalUs } from '../../task/admission-rule.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';
import { type RootsOf, findRecord } from './redis-find.ts';
import { RedisMemory } from './redis-memory.ts';
import { pack } from './redis-pack.ts';

/** A key in use is listed again after this long: it may have been pruned in the meantime. */
const REMEMBER_MS = 600_000;
/** Holders in one call: a script blocks the server while it runs. */
const MOST_HOLDERS = 500;
/** One call over all keys scans about this many. */
const NAMES_AT_ONCE = 2_000;

/**
 * Admission in Redis, beside the ledger. All data of one admission key is in one hash slot, and a script touches only
 * one slot; calls for several keys are sent together.
 */
export class RedisAdmissionStore implements AdmissionStore {
  readonly #connection: RedisConnection;
  readonly #roots: RootsOf;
  readonly #keys: AdmissionKeys;
  readonly #memory: RedisMemory;
  readonly #swept: NamesInTurn;
  readonly #pruned: NamesInTurn;
  /** When each key was last listed, by this process's clock. */
  readonly #known = new Map<string, number>();

  /** `prefix` is put in front of every key, for tests that share a server. */
  constructor(connection: RedisConnection, roots: RootsOf, prefix = '') {
    this.#connection = connection;
    this.#roots = roots;
    this.#keys = new AdmissionKeys(prefix);
    this.#memory = new RedisMemory(connection, roots);
    this.#swept = new NamesInTurn(connection, this.#keys.index);
    this.#pruned = new NamesInTurn(connection, this.#keys.index);
  }

  async take(asks: readonly RateAsk[]): Promise<readonly RateGrant[]> {
    await this.#remember(asks.map(({ key }) => key));
    return await Promise.all(
      asks.map(async ({ key, rate, count }) => {
        const args = [count, intervalUs(rate), rate.burst, rate.limit, rate.perMs];
        const keys = [this.#keys.state(key)];
        const reply = await this.#connection.script(LUA.admissionTake, keys, args);
        const [granted, waitUs, mark] = (reply as readonly unknown[]).map(value =>
          Number(String(value)),
        ) as [number, number, number];
        return { granted, retryAfterMs: Math.ceil(waitUs / 1_000), mark };
      }),
    );
  }

  async refund(reservations: readonly RateRefund[]): Promise<readonly boolean[]> {
    return await Promise.all(
      reservations.map(async ({ key, rate, count, mark }) => {
        const args = [count * intervalUs(rate), mark];
        const keys = [this.#keys.state(key)];
        return (await this.#connection.script(LUA.admissionRefund, keys, args)) === 1;
      }),
    );
  }

  async hold(token: string, holdMs: number): Promise<void> {
    const key = this.#keys.permit(token);
    await this.#connection.command('set', key, '', 'PX', Math.ceil(holdMs), 'NX');
  }

  async confirm(uses: readonly PermitUse[]): Promise<readonly boolean[]> {
    return await Promise.all(
      uses.map(async ({ token, task }) => {
        const keys = [this.#keys.permit(token)];
        return (await this.#connection.script(LUA.admissionConfirm, keys, [task])) === 1;
      }),
    );
  }

  async reserve({ key, limit, holders }: ReserveRequest): Promise<ReserveReply> {
    await this.#remember([key]);
    const isIn: boolean[] = [];
    let waiting = 0;
    for (const some of slicesOf(holders, MOST_HOLDERS)) {
      const args = [limit, packHolders(some)];
      const reply = await this.#connection.script(LUA.admissionReserve, this.#all(key), args);
      const answers = reply as readonly number[];
      isIn.push(...answers.slice(0, -1).map(answer => answer === 1));
      waiting = answers.at(-1) ?? 0;
    }
    return { isIn, waiting };
  }

  async want({ key, limit, task }: ReservationWish): Promise<boolean> {
    const keys = [this.#keys.places(key), this.#keys.wanted(key)];
    return (await this.#connection.script(LUA.admissionWant, keys, [limit, task])) === 1;
  }

  async free(places: readonly Reservation[]): Promise<readonly string[]> {
    const byKey = new Map<string, Reservation[]>();
    for (const place of places) {
      const same = byKey.get(place.key);
      if (same) same.push(place);
      else byKey.set(place.key, [place]);
    }
    const calls = [...byKey].flatMap(([key, all]) =>
      slicesOf(all, MOST_HOLDERS).map(held => ({ key, held })),
    );
    const woken = await Promise.all(
      calls.map(async ({ key, held }) => {
        const keys = [this.#keys.places(key), this.#keys.wanted(key)];
        const reply = await this.#connection.script(LUA.admissionFree, keys, [packHolders(held)]);
        return (reply as readonly Buffer[]).map(String);
      }),
    );
    return [...new Set(woken.flat())];
  }

  /** A reservation is made after its run has begun, and a run token is never reused: a run that is over stays over. */
  async sweep(key: string | null, limit: number): Promise<SweepReply> {
    const keys = key === null ? await this.#swept.next() : [key];
    const held = (await Promise.all(keys.map(name => this.#heldUnder(name)))).flat();
    if (held.length === 0) return { freed: 0, wake: [] };
    // Fresh, and read after the reservations: a run's queue was registered before the run could have one.
    const roots = await this.#roots(true);
    const isOver = await Promise.all(held.map(place => this.#isOver(place, roots)));
    const over = held.filter((_, index) => isOver[index]).slice(0, limit);
    return { freed: over.length, wake: await this.free(over) };
  }

  async #heldUnder(key: string): Promise<readonly Reservation[]> {
    const reply = await this.#connection.command('zrange', this.#keys.places(key), 0, -1);
    return (reply as readonly Buffer[]).map(member => {
      const [task, run] = splitLast(String(member));
      return { key, task, run };
    });
  }

  async #isOver({ task, run }: ReservationHolder, roots: readonly string[]): Promise<boolean> {
    const found = await findRecord(this.#connection, roots, task);
    return found === null || found.record.state !== 'running' || found.record.run !== run;
  }

  async pressure(): Promise<{ readonly retryAfterMs: number; readonly why: string } | null> {
    return await this.#memory.pressure();
  }

  async figures(): Promise<readonly KeyFigures[]> {
    const keys = (await this.#index()).toSorted();
    const all = await Promise.all(keys.map(key => this.#figuresOf(key)));
    return all.filter(figures => figures !== null);
  }

  async #figuresOf(key: string): Promise<KeyFigures | null> {
    const reply = await this.#connection.script(LUA.admissionFigures, this.#all(key), []);
    const [now, held, waiting, fields] = reply as [Buffer, number, number, readonly Buffer[]];
    const state = new Map<string, number>();
    for (let at = 0; at < fields.length; at += 2)
      state.set(String(fields[at]), Number(String(fields[at + 1])));
    if (state.size === 0 && held === 0) return null;
    const rate = rateOf(state);
    const available =
      rate && takeFrom(state.get('tat') ?? 0, Number(String(now)), rate, rate.burst).granted;
    const rejected = state.get('rejected') ?? 0;
    return {
      key,
      rate,
      available,
      concurrency: state.get('concurrency') ?? null,
      held,
      waiting,
      rejected,
    };
  }

  /** States, wishes and permits expire by themselves; only the list of names has to be scanned. */
  async prune(): Promise<void> {
    const keys = await this.#pruned.next();
    const isGone = await Promise.all(keys.map(async key => (await this.#figuresOf(key)) === null));
    const gone = keys.filter((_, index) => isGone[index]);
    if (gone.length > 0) await this.#connection.command('srem', this.#keys.index, ...gone);
  }

  async #index(): Promise<readonly string[]> {
    const members = await this.#connection.command('smembers', this.#keys.index);
    return (members as readonly Buffer[]).map(String);
  }

  /** Key names are for operators and for sweeping. They are in another hash slot, so no script writes them. */
  async #remember(keys: readonly string[]): Promise<void> {
    const now = performance.now();
    const stale = keys.filter(key => now - (this.#known.get(key) ?? -Infinity) > REMEMBER_MS);
    if (stale.length === 0) return;
    await this.#connection.command('sadd', this.#keys.index, ...stale);
    // Tenants come and go: drop what was remembered long ago here too.
    if (this.#known.size > 10_000) this.#known.clear();
    for (const key of stale) this.#known.set(key, now);
  }

  #all(key: string): readonly string[] {
    return [this.#keys.state(key), this.#keys.places(key), this.#keys.wanted(key)];
  }
}

/** The members of a set, some per call and eventually all: a key may be a customer, and there are many. */
class NamesInTurn {
  readonly #connection: RedisConnection;
  readonly #set: string;
  #cursor = '0';

  constructor(connection: RedisConnection, set: string) {
    this.#connection = connection;
    this.#set = set;
  }

  async next(): Promise<readonly string[]> {
    const reply = await this.#connection.command(
      'sscan',
      this.#set,
      this.#cursor,
      'COUNT',
      NAMES_AT_ONCE,
    );
    const [cursor, names] = reply as readonly [Buffer, readonly Buffer[]];
    this.#cursor = String(cursor);
    return [...new Set(names.map(String))];
  }
}

const packHolders = (holders: readonly ReservationHolder[]): Buffer =>
  pack(holders.map(({ task, run }) => [task, run]));

/** An id may be any text; a run token never contains a line break. */
function splitLast(member: string): readonly [string, string] {
  const at = member.lastIndexOf('\n');
  return [member.slice(0, at), member.slice(at + 1)];
}

function rateOf(state: ReadonlyMap<string, number>): Rate | null {
  const [limit, perMs, burst] = [state.get('limit'), state.get('per'), state.get('burst')];
  if (limit === undefined || perMs === undefined || burst === undefined) return null;
  return { limit, perMs, burst };
}

/** The keys of admission. The part in braces decides the hash slot: all keys of one name are in one. */
export class AdmissionKeys {
  readonly #prefix: string;

  constructor(prefix: string) {
    this.#prefix = `${prefix}outlast:admission:`;
  }

  /** The names of all keys in use. */
  get index(): string {
    return `${this.#prefix}keys`;
  }

  state(key: string): string {
    return `${this.#of(key)}state`;
  }

  places(key: string): string {
    return `${this.#of(key)}places`;
  }

  wanted(key: string): string {
    return `${this.#of(key)}wanted`;
  }

  permit(token: string): string {
    return `${this.#prefix}permit:${token}`;
  }

  /** A name that contains braces would change its hash slot. */
  #of(key: string): string {
    return `${this.#prefix}{${/[{}]/.test(key) ? `%${encodeURIComponent(key)}` : key}}:`;
  }
}
