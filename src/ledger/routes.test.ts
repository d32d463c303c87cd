import { describe, expect, it } from 'vitest';
import { readCelery, type CeleryRoutes } from '../config/celery.ts';
import type { Envelope, EnvelopeOptions } from '../task/envelope.ts';
import { toBytes } from '../task/json.ts';
import { Destinations } from './destinations.ts';
import type { Sending } from './expand-signature.ts';
import { Routes } from './routes.ts';
import { addressOf, type Routing } from './signature-options.ts';

const troubles: unknown[] = [];
const routesOf = (routes?: unknown, defaultQueue?: string): Routes =>
  new Routes(readCelery({ routes, defaultQueue }), error => troubles.push(error));

describe('routes', () => {
  const table = {
    'feed.tasks.import': { queue: 'imports' },
    'feed.*': { queue: 'feeds', routing_key: 'feed.import', priority: 3 },
    'web.?': 'never a pattern',
    'image.[ab]*': 'images',
    'topic.*': { exchange: 'topics', routing_key: 'topic.all' },
    'key.*': { routing_key: 'a.b' },
    'exchange.*': { exchange: 'topics' },
    'both.*': { queue: 'q', exchange: 'topics' },
    'default.*': {},
  };

  it.each([
    ['feed.tasks.import', { queue: 'imports' }],
    ['feed.tasks.other', { queue: 'feeds', priority: 3 }],
    ['feed', { queue: 'celery' }],
    ['web.x', { queue: 'celery' }],
    ['image.bc', { queue: 'images' }],
    ['image.c', { queue: 'celery' }],
    ['topic.a', { queue: 'celery', exchange: 'topics', routingKey: 'topic.all' }],
    ['key.a', { queue: 'celery', exchange: 'celery', routingKey: 'a.b' }],
    ['exchange.a', { queue: 'celery', exchange: 'topics', routingKey: 'celery' }],
    ['both.a', { queue: 'q', exchange: 'topics', routingKey: 'q' }],
    ['default.a', { queue: 'celery' }],
    ['unknown', { queue: 'celery' }],
  ])("are those of Celery's table: %s", (name, expected) => {
    const tables: CeleryRoutes[] = [table, Object.entries(table), [Object.entries(table)], [table]];
    for (const routes of tables) expect(routesOf(routes).destinationOf(name)).toEqual(expected);
  });

  it('may be regular expressions from the beginning of a name, and functions, the first of which decides', () => {
    const routes = routesOf(
      [
        [[/(video|image)\..*/g, { queue: 'media' }]],
        (name: string) => (name.startsWith('own.') ? `${name}-queue` : null),
        [['own.*', 'too late']],
        ['pair.*', 'pairs'],
      ],
      'others',
    );
    const names = ['video.cut', 'video.cut', 'my.video.cut', 'own.a', 'pair.a'];
    expect(names.map(name => routes.destinationOf(name).queue)).toEqual([
      'media',
      'media',
      'others',
      'own.a-queue',
      'pairs',
    ]);
  });

  it('go on where a function fails or says nothing that is a route', () => {
    const boom = new Error('boom');
    const fails = (): never => {
      throw boom;
    };
    const routes = routesOf([fails, () => 7, { '*': 'last' }]);
    troubles.length = 0;
    expect(routes.destinationOf('a')).toEqual({ queue: 'last' });
    expect(troubles).toEqual([boom, expect.objectContaining({ code: 'ERR_OPTION_RANGE' })]);
  });

  it.each([
    [{ a: { queu: 'x' } }, 'ERR_UNKNOWN_OPTION'],
    [{ a: { queue: 7 } }, 'ERR_OPTION_RANGE'],
    [{ a: { priority: 10 } }, 'ERR_OPTION_RANGE'],
    [{ a: 7 }, 'ERR_OPTION_RANGE'],
    ['my.router.Class', 'ERR_OPTION_RANGE'],
    [[['a', 'b'], 7], 'ERR_OPTION_RANGE'],
    [[[['a', 'b'], 'c']], 'ERR_OPTION_RANGE'],
  ])('that are none are refused: %j', (routes, code) => {
    expect(() => routesOf(routes)).toThrow(expect.objectContaining({ code }));
  });
});

describe('a task that follows another', () => {
  const sending = (options: object): Sending => ({
    signature: {
      task: 'py.add',
      options: new Map(Object.entries(options).map(([key, value]) => [key, JSON.stringify(value)])),
      args: [],
      kwargs: '{}',
      isImmutable: false,
      chordSize: null,
    },
    id: 'id',
    args: '[]',
    callbacks: [],
    errbacks: [],
    chain: null,
    group: null,
    chord: null,
  });
  const route = { queue: 'routed', exchange: 'topics', routingKey: 'key', priority: 4 };
  const routing: Routing = { queueOf: () => null, routeOf: () => route };

  it.each([
    ['goes where its signature says', { queue: 'own' }, routing, { queue: 'own', priority: 0 }],
    [
      'or to the exchange that it names',
      { exchange: 'e', routing_key: 'k', priority: 2 },
      routing,
      { queue: 'before', exchange: 'e', routingKey: 'k', priority: 2 },
    ],
    [
      'else to the queue of its handler here',
      { queue: null },
      { ...routing, queueOf: () => 'here' },
      { queue: 'here', priority: 0 },
    ],
    ['else where the routes say', { priority: null }, routing, route],
    ['with the priority that it names', { priority: 1 }, routing, { ...route, priority: 1 }],
    [
      'and after the task before it where nothing is routed',
      {},
      { queueOf: () => null },
      { queue: 'before', priority: 0 },
    ],
  ] as const)('%s', (_, options, given: Routing, expected) => {
    expect(addressOf(sending(options), 'before', given)).toEqual(expected);
  });

  it('stays where it is if every worker has it, unless a route names it', () => {
    const plain = sending({});
    const accumulate = { ...plain, signature: { ...plain.signature, task: 'celery.accumulate' } };
    const queueWith = (table: object): string => {
      const routes = routesOf(table);
      const routeOf: NonNullable<Routing['routeOf']> = (...asked) => routes.destinationOf(...asked);
      return addressOf(accumulate, 'before', { queueOf: () => null, routeOf }).queue;
    };
    expect(queueWith({})).toBe('before');
    expect(queueWith({ 'celery.*': 'builtin' })).toBe('builtin');
  });
});

describe('a message may have us write', () => {
  const to = (name: string, queue: string, options: EnvelopeOptions = {}): Envelope => ({
    id: 'id',
    name,
    queue,
    priority: 0,
    version: 1,
    body: toBytes('[]'),
    options: toBytes(JSON.stringify(options)),
    digest: '',
    etaMs: null,
    expiresMs: null,
  });
  const routes = routesOf(
    [
      { 'table.*': 'from.table', 'topic.*': { exchange: 'topics', routing_key: 'key' } },
      (name: string) => (name.startsWith('own.') ? 'from.function' : null),
    ],
    'others',
  );
  const rules = new Destinations({ queues: ['mine'], allowed: [], routes });

  it.each([
    ['to the default queue', to('any', 'others'), 'known'],
    ['to a queue of a table', to('any', 'from.table'), 'known'],
    ['to what a function says for this task', to('own.a', 'from.function'), 'known'],
    [
      'to an exchange by its route',
      to('topic.a', 'x', { exchange: 'topics', routingKey: 'key' }),
      'known',
    ],
    [
      'not by another key',
      to('topic.a', 'x', { exchange: 'topics', routingKey: 'other' }),
      'refused',
    ],
    ['not for another task', to('any', 'x', { exchange: 'topics', routingKey: 'key' }), 'refused'],
    ['only if it is there, elsewhere', to('any', 'from.function'), 'existing'],
    ['and so to a default that is not ours', to('any', 'celery'), 'existing'],
  ])('%s', (_, envelope, kind) => {
    expect(rules.judge(envelope).kind).toBe(kind);
  });
});
