import { maskUrl } from '../errors/mask-secrets.ts';
import { CELERY_TABLE } from '../options/celery-table.ts';
import { rowOf } from '../options/option.ts';
import { shellPattern } from '../task/glob.ts';
import { asRecord, dropUndefined, rangeError, refuseUnknown, shown } from './options.ts';
import { readValue } from './resolve-section.ts';

/** Where a task goes, as a value of Celery's `task_routes` says it. */
export interface CeleryRoute {
  readonly queue?: string | undefined;
  readonly exchange?: string | undefined;
  readonly routingKey?: string | undefined;
  /** As Celery spells it. */
  readonly routing_key?: string | undefined;
  readonly priority?: number | undefined;
}

/** By the name of a task: a route, the name of a queue, or nothing, and then the next router is asked. */
export type CeleryRouter = (name: string) => string | CeleryRoute | null | undefined;

/** Routes by names of tasks, or by patterns: `*`, `?` and `[…]` in a text that has a `*`, or a regular expression. */
export type CeleryRouteTable =
  | Readonly<Record<string, string | CeleryRoute>>
  | readonly (readonly [string | RegExp, string | CeleryRoute])[];

/** Celery's `task_routes`. Of several routers the first that has a route decides. */
export type CeleryRoutes =
  | CeleryRouter
  | CeleryRouteTable
  | readonly (CeleryRouter | CeleryRouteTable)[];

/** What a router says about a task. */
export interface ReadRoute {
  readonly queue?: string;
  readonly exchange?: string;
  readonly routingKey?: string;
  readonly priority?: number;
}

/** Null: it has no route for this task. Throws what a user's function throws, and for a route that is none. */
export type ReadRouter = (name: string) => ReadRoute | null;

/** What is known of the Celery applications at the same broker. */
export interface CeleryRules {
  readonly defaultQueue: string;
  readonly routers: readonly ReadRouter[];
  /** The Redis in which Celery counts chords; null: it is the ledger, or not known. */
  readonly chordBackend: string | null;
  /** Queues that tables name; what a function names is not known before. */
  readonly queues: readonly string[];
}

const HINT =
  "Write it as Celery's `task_routes`: { 'reports.*': { queue: 'reports' } }, a list of pairs, or a function of the name.";

/** Checks the section of a configuration. */
export function readCelery(value: unknown): CeleryRules {
  const given = dropUndefined(asRecord(value ?? {}, 'celery'));
  refuseUnknown(Object.keys(given), Object.keys(CELERY_TABLE), key => `celery.${key}`);
  const row = rowOf(CELERY_TABLE, 'defaultQueue', 'name');
  const defaultQueue = given['defaultQueue'] ?? row.default;
  const routers = readRouters(given['routes']);
  return Object.freeze({
    defaultQueue: readValue(row, defaultQueue, 'celery.defaultQueue') as string,
    chordBackend: readBackend(given['chordBackend']),
    routers: routers.map(({ router }) => router),
    queues: routers.flatMap(({ queues }) => queues),
  });
}

const BACKEND = /^(?:rediss?|sentinel):\/\/./i;

function readBackend(value: unknown): string | null {
  if (value === undefined) return null;
  if (typeof value === 'string' && BACKEND.test(value)) return value;
  const shownAs = typeof value === 'string' ? maskUrl(value) : shown(value);
  throw rangeError(
    'celery.chordBackend',
    `is ${shownAs}`,
    'Use redis://host:6379/0, rediss://… or sentinel://….',
  );
}

interface NamedRouter {
  readonly router: ReadRouter;
  readonly queues: readonly string[];
}

function readRouters(routes: unknown): readonly NamedRouter[] {
  if (routes === undefined || routes === null) return [];
  // A list of pairs is one table; in any other list each member is a router.
  const isList = Array.isArray(routes) && !(routes.length > 0 && routes.every(isPair));
  const list: readonly unknown[] = isList ? (routes as readonly unknown[]) : [routes];
  return list.map(readRouter);
}

const isPair = (value: unknown): value is readonly [string | RegExp, unknown] =>
  Array.isArray(value) &&
  value.length === 2 &&
  (typeof value[0] === 'string' || value[0] instanceof RegExp);

function readRouter(given: unknown): NamedRouter {
  if (typeof given === 'function') {
    const ask = given as CeleryRouter;
    const router: ReadRouter = name => readRoute(ask(name) ?? null, 'a function of celery.routes');
    return { router, queues: [] };
  }
  if (isPair(given)) return readTable([given]);
  if (Array.isArray(given)) {
    const wrong = given.find(pair => !isPair(pair)) as unknown;
    if (wrong !== undefined) throw rangeError('celery.routes', `has ${shown(wrong)}`, HINT);
    return readTable(given as readonly (readonly [string | RegExp, unknown])[]);
  }
  if (typeof given !== 'object' || given === null)
    throw rangeError('celery.routes', `has ${shown(given)}`, HINT);
  return readTable(Object.entries(dropUndefined(given as Readonly<Record<string, unknown>>)));
}

/** As in Celery: a name that is there as it is comes before all patterns, and of those the first that matches decides. */
function readTable(entries: readonly (readonly [string | RegExp, unknown])[]): NamedRouter {
  const exact = new Map<string, ReadRoute>();
  const patterns: { readonly matches: (name: string) => boolean; readonly route: ReadRoute }[] = [];
  for (const [key, value] of entries) {
    const route = readRoute(value, `celery.routes['${String(key)}']`) ?? {};
    if (typeof key === 'string' && !key.includes('*')) exact.set(key, route);
    else patterns.push({ matches: matcherOf(key), route });
  }
  const all = [...exact.values(), ...patterns.map(({ route }) => route)];
  return {
    router: name => exact.get(name) ?? patterns.find(({ matches }) => matches(name))?.route ?? null,
    queues: all.flatMap(({ queue }) => queue ?? []),
  };
}

/** A regular expression must match from the beginning, as with Python's `match`. */
function matcherOf(key: string | RegExp): (name: string) => boolean {
  if (typeof key === 'string') {
    const pattern = shellPattern(key);
    return name => pattern.test(name);
  }
  const sticky = new RegExp(key.source, `${key.flags.replaceAll(/[gy]/g, '')}y`);
  return name => {
    sticky.lastIndex = 0;
    return sticky.test(name);
  };
}

const ROUTE_KEYS = ['queue', 'exchange', 'routing_key', 'routingKey', 'priority'];
const LONGEST = 255;

function readRoute(value: unknown, option: string): ReadRoute | null {
  if (value === null || value === undefined) return null;
  if (typeof value === 'string') return { queue: readText(value, option) };
  const given = dropUndefined(asRecord(value, option));
  refuseUnknown(Object.keys(given), ROUTE_KEYS, key => `${option}.${key}`);
  const { queue, exchange, priority } = given;
  const routingKey = given['routingKey'] ?? given['routing_key'];
  return Object.freeze({
    ...(isNone(queue) ? {} : { queue: readText(queue, `${option}.queue`) }),
    ...(isNone(exchange) ? {} : { exchange: readText(exchange, `${option}.exchange`) }),
    ...(isNone(routingKey) ? {} : { routingKey: readText(routingKey, `${option}.routing_key`) }),
    ...(isNone(priority) ? {} : { priority: readPriority(priority, `${option}.priority`) }),
  });
}

/** Celery takes an empty name for none. */
const isNone = (value: unknown): boolean => value === undefined || value === null || value === '';

function readText(value: unknown, option: string): string {
  // oxlint-disable-next-line no-control-regex -- control characters are what is refused
  const isName = typeof value === 'string' && /^[^\u0000-\u001f\u007f]+$/.test(value);
  if (isName && value.length <= LONGEST) return value;
  throw rangeError(option, `is ${shown(value)}`, `Use a text of up to ${LONGEST} characters.`);
}

function readPriority(value: unknown, option: string): number {
  if (Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 9) return Number(value);
  throw rangeError(option, `is ${shown(value)}`, 'Use a whole number from 0 to 9.');
}
