/**
 * What the compiler knows about tasks. Compiled by `tsc`, never run: a wrong type is a compile error
 * here, and so is a `@ts-expect-error` over a line that has none.
 */
import * as v from 'valibot';
import { z } from 'zod';
import {
  task,
  type Call,
  type InputOf,
  type ParsedOf,
  type ResultOf,
  type ReturnedOf,
  type Task,
  type TaskCall,
} from '../../src/task/define-task.ts';
import { unchecked } from '../../src/task/standard-schema.ts';

// The one comparison the compiler makes without looking for assignability; T is its whole point.
// oxlint-disable typescript/no-unnecessary-type-parameters
type Equal<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
// oxlint-enable typescript/no-unnecessary-type-parameters
type Expect<T extends true> = T;
/** Keeps the checks of a block in use, and so under the compiler's eyes. */
type Facts<T extends readonly true[]> = T;

// A task without options takes nothing and gives nothing.
const nightly = task('shop.nightly');
export type Nightly = Facts<
  [
    Expect<Equal<InputOf<typeof nightly>, undefined>>,
    Expect<Equal<ParsedOf<typeof nightly>, undefined>>,
    Expect<Equal<ReturnedOf<typeof nightly>, void>>,
    Expect<Equal<ResultOf<typeof nightly>, void>>,
  ]
>;
export const nightlyCall: Call<void> = nightly.with();
export const laterCall: Call<void> = nightly.with(undefined, { countdown: '10m' });
// @ts-expect-error -- there is no input to give
nightly.with({ orderId: '1' });

// zod: defaults and transforms make what the handler gets differ from what `send` takes.
const order = task('shop.order', {
  input: z.object({
    id: z.string(),
    note: z.string().optional(),
    count: z.number().default(1),
    day: z.string().transform(text => new Date(text)),
  }),
  result: z.string().transform(Number),
});
export type Order = Facts<
  [
    Expect<
      Equal<
        InputOf<typeof order>,
        { id: string; day: string; note?: string | undefined; count?: number | undefined }
      >
    >,
    Expect<
      Equal<
        ParsedOf<typeof order>,
        { id: string; count: number; day: Date; note?: string | undefined }
      >
    >,
    Expect<Equal<ReturnedOf<typeof order>, string>>,
    Expect<Equal<ResultOf<typeof order>, number>>,
  ]
>;

// valibot: the same.
const parcel = task('shop.parcel', {
  input: v.object({
    id: v.string(),
    count: v.optional(v.number(), 1),
    day: v.pipe(
      v.string(),
      v.transform(text => new Date(text)),
    ),
  }),
  result: v.object({ ok: v.boolean() }),
});
export type Parcel = Facts<
  [
    Expect<Equal<InputOf<typeof parcel>, { id: string; count?: number | undefined; day: string }>>,
    Expect<Equal<ParsedOf<typeof parcel>, { id: string; count: number; day: Date }>>,
    Expect<Equal<ReturnedOf<typeof parcel>, { ok: boolean }>>,
    Expect<Equal<ResultOf<typeof parcel>, { ok: boolean }>>,
  ]
>;

// Inputs that are no objects.
const announce = task('site.announce', { input: z.string(), result: z.boolean() });
const longest = task('site.longest', { input: v.array(v.string()), result: v.string() });
const pick = task('site.pick', { input: z.union([z.string(), z.number()]) });
const maybe = task('site.maybe', { input: z.string().optional() });
const big = task('site.big', { input: z.object({ id: z.bigint(), none: z.null() }) });
const anything = task('site.anything', { input: z.unknown(), result: z.any() });
export type Others = Facts<
  [
    Expect<Equal<InputOf<typeof announce>, string>>,
    Expect<Equal<InputOf<typeof longest>, string[]>>,
    Expect<Equal<InputOf<typeof pick>, string | number>>,
    Expect<Equal<InputOf<typeof maybe>, string | undefined>>,
    Expect<Equal<InputOf<typeof big>, { id: bigint; none: null }>>,
    Expect<Equal<InputOf<typeof anything>, unknown>>,
  ]
>;
export const maybeCalls: Call<void>[] = [maybe.with(), maybe.with('x')];
// @ts-expect-error -- the input is needed
announce.with();

// A type without a check, also one that contains itself.
interface Tree {
  readonly name: string;
  readonly children: readonly Tree[];
}
type Json = string | number | boolean | null | Json[] | { [key: string]: Json };
const charge = task('billing.charge', {
  result: unchecked<{ chargeId: string }>(),
  timeout: '30s',
});
const grow = task('billing.grow', { input: unchecked<Tree>(), result: unchecked<Json>() });
const store = task('billing.store', { input: z.object({ data: z.json() }), result: z.json() });
export type Unchecked = Facts<
  [
    Expect<Equal<InputOf<typeof charge>, undefined>>,
    Expect<Equal<ReturnedOf<typeof charge>, { chargeId: string }>>,
    Expect<Equal<ResultOf<typeof charge>, { chargeId: string }>>,
    Expect<Equal<InputOf<typeof grow>, Tree>>,
    Expect<Equal<ResultOf<typeof grow>, Json>>,
    Expect<Equal<InputOf<typeof store>['data'], ReturnedOf<typeof store>>>,
  ]
>;

// Positional and keyword arguments, as a Python task takes them.
const resize = task('images.resize', {
  queue: 'python',
  args: z.tuple([z.string(), z.number().default(800)]),
  kwargs: z.object({ format: z.enum(['webp', 'png']).optional() }),
  result: z.object({ url: z.string() }),
});
const crop = task('images.crop', {
  args: z.tuple([z.string()]),
  kwargs: z.object({ width: z.number() }),
});
const rotate = task('images.rotate', { args: v.tuple([v.string(), v.number()]) });
const clear = task('images.clear', { kwargs: z.object({ older: z.string().default('1d') }) });
type Format = { format?: 'webp' | 'png' | undefined };
export type Arguments = Facts<
  [
    Expect<
      Equal<
        InputOf<typeof resize>,
        { readonly args: [string, (number | undefined)?]; readonly kwargs?: Format }
      >
    >,
    Expect<
      Equal<ParsedOf<typeof resize>, { readonly args: [string, number]; readonly kwargs: Format }>
    >,
    Expect<
      Equal<InputOf<typeof crop>, { readonly args: [string]; readonly kwargs: { width: number } }>
    >,
    Expect<Equal<InputOf<typeof rotate>, { readonly args: [string, number] }>>,
    Expect<Equal<ParsedOf<typeof clear>, { readonly kwargs: { older: string } }>>,
  ]
>;
export const resizeCalls: Call<{ url: string }>[] = [
  resize.with({ args: ['a.png', 800] }),
  resize.with({ args: ['a.png'], kwargs: { format: 'webp' } }, { priority: 9 }),
];
// @ts-expect-error -- a keyword argument without default is needed
crop.with({ args: ['a.png'] });
resize.with({
  // @ts-expect-error -- a number where the first argument is text
  args: [1, 800],
});

// `.with` gives a call of the task's result, and the compiler points at the wrong argument.
const call = order.with({ id: '1', day: '2026-01-01' }, { countdown: '10m', link: nightly });
export type Calls = Facts<
  [
    Expect<Equal<typeof call, TaskCall<number, string>>>,
    Expect<Equal<ResultOf<typeof call>, number>>,
  ]
>;
order.with({
  // @ts-expect-error -- a number where text is due
  id: 1,
  day: '2026-01-01',
});
order.with({
  id: '1',
  // @ts-expect-error -- what the handler gets is not what is sent
  day: new Date(),
});
order.with({
  id: '1',
  day: '2026-01-01',
  // @ts-expect-error -- a key the schema does not have
  colour: 'red',
});
order.with(
  { id: '1', day: '2026-01-01' },
  // @ts-expect-error -- a number where a duration is due
  { countdown: 600 },
);
// @ts-expect-error -- not the input of this task
announce.with(5);

// What JSON would change is refused at the schema.
task('bad.date', {
  // @ts-expect-error -- a Date would arrive as text
  input: z.date(),
});
task('bad.inside', {
  // @ts-expect-error -- also deep inside
  input: z.object({ list: z.array(z.object({ when: z.date().optional() })) }),
});
task('bad.map', {
  // @ts-expect-error -- a Map would arrive empty
  input: z.object({ map: z.map(z.string(), z.string()) }),
});
task('bad.set', {
  // @ts-expect-error -- a Set would arrive empty
  input: v.object({ set: v.set(v.string()) }),
});
task('bad.function', {
  // @ts-expect-error -- a function would not arrive at all
  input: unchecked<{ run: () => void }>(),
});
task('bad.symbol', {
  // @ts-expect-error -- a symbol would not arrive at all
  input: z.symbol(),
});
task('bad.result', {
  // @ts-expect-error -- results travel as JSON too
  result: v.date(),
});
task('bad.args', {
  // @ts-expect-error -- and so do arguments
  args: z.tuple([z.date()]),
});
task('bad.kwargs', {
  // @ts-expect-error -- of both kinds
  kwargs: z.object({ when: z.date() }),
});
task('bad.schema', {
  // @ts-expect-error -- not a schema
  input: { id: 'string' },
});

// A Date the handler makes of text is its own affair.
export const fine: Task = task('good.date', {
  input: z.object({ when: z.string().transform(text => new Date(text)) }),
});

// Options of a contract.
task('options.good', {
  version: 2,
  queue: 'vip',
  priority: 7,
  timeout: '30s',
  softTimeout: '250ms',
  expires: '1.5h',
});
task('options.unit', {
  // @ts-expect-error -- a number where a duration is due
  timeout: 30,
});
task('options.text', {
  // @ts-expect-error -- no such unit
  timeout: '30 seconds',
});
task('options.unknown', {
  // @ts-expect-error -- no such option
  quue: 'vip',
});

// Every task is a `Task`, every call a `Call`: lists of them hold any.
export const tasks: readonly Task[] = [
  nightly,
  order,
  parcel,
  announce,
  longest,
  resize,
  grow,
  store,
  anything,
];
export const calls: readonly Call[] = [call, nightly.with(), resize.with({ args: ['a.png', 1] })];

// The ordering key is a function of the input as it is sent.
task('shop.ordered', {
  input: z.object({ orderId: z.string(), day: z.string().transform(text => new Date(text)) }),
  ordering: { key: input => `${input.orderId}/${input.day.slice(0, 4)}`, whenDead: 'go-on' },
});
task('images.ordered', {
  args: z.tuple([z.string(), z.number()]),
  ordering: { key: ({ args }) => args[0] },
});
task('shop.badly-ordered', {
  input: z.object({ orderId: z.string() }),
  // @ts-expect-error -- a number is no key
  ordering: { key: input => input.orderId.length },
});
// @ts-expect-error -- there is no such choice
task('shop.dead', { input: z.string(), ordering: { key: input => input, whenDead: 'skip' } });

// The idempotency key is a function of the input as it is sent.
task('shop.pay', { input: z.object({ day: z.string() }), idempotent: true });
task('shop.pay', {
  input: z.object({ orderId: z.string(), day: z.string().transform(text => new Date(text)) }),
  idempotent: { key: input => `${input.orderId}/${input.day.slice(0, 4)}`, ttl: '24h' },
});
task('shop.pay', { input: z.string(), idempotent: { ttl: '1h' } });
// @ts-expect-error -- a key is text
task('shop.pay', { input: z.object({ n: z.number() }), idempotent: { key: input => input.n } });
// @ts-expect-error -- a number where a duration is due
task('shop.pay', { input: z.string(), idempotent: { key: input => input, ttl: 60 } });

/** The key of an admission is made of the input. */
export const limited: Task = task('t', {
  input: unchecked<{ tenant: string }>(),
  admission: { key: input => input.tenant, rate: { limit: 1, per: '1s' } },
});
task('t', {
  input: unchecked<{ tenant: number }>(),
  // @ts-expect-error -- a key is a text
  admission: { key: input => input.tenant, concurrency: 1 },
});
// @ts-expect-error -- a duration has a unit
task('t', { admission: { rate: { limit: 1, per: 5 } } });
