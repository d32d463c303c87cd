/** What the compiler knows about workflows. Compiled by `tsc`, never run. */
import { z } from 'zod';
import type { Outlast, TaskHandle } from '../../src/index.ts';
import {
  chain,
  chord,
  group,
  task,
  unchecked,
  type Call,
  type ChainCall,
  type ChordCall,
  type ResultOf,
} from '../../src/task/index.ts';

// oxlint-disable typescript/no-unnecessary-type-parameters
type Equal<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
// oxlint-enable typescript/no-unnecessary-type-parameters
type Expect<T extends true> = T;

const nightly = task('shop.nightly');
const resize = task('images.resize', {
  queue: 'python',
  args: z.tuple([z.string(), z.number()]),
  kwargs: z.object({ format: z.enum(['webp', 'png']).optional() }),
  result: z.object({ url: z.string() }),
});
const crop = task('images.crop', {
  args: z.tuple([z.string()]),
  kwargs: z.object({ width: z.number() }),
  result: z.string(),
});
const clear = task('images.clear', { kwargs: z.object({ older: z.string() }) });
const publish = task('site.publish', {
  params: ['image', 'page'],
  input: z.object({ image: z.object({ url: z.string() }), page: z.string() }),
  result: z.string(),
});
const rename = task('site.rename', {
  params: ['name'],
  input: z.object({ name: z.string(), loud: z.boolean().optional() }),
  result: z.string().transform(Number),
});
const announce = task('site.announce', { input: z.string(), result: z.boolean() });
const longest = task('site.longest', { input: z.array(z.string()), result: z.string() });
const alarm = task('ops.alarm', { input: z.string() });
const loose = task('any.loose', { result: unchecked<unknown>() });
const anything = task('any.thing', { input: unchecked<unknown>() });
const page = (url: string) => publish.with({ image: { url }, page: '/' }, { linkError: alarm });

const flow = chain(resize.with({ args: ['a.png', 800] }), publish.after({ page: '/' }), announce);
const best = chord(['a', 'b'].map(page), longest);
const mixed = group([page('a'), announce.with('x'), flow, nightly.with()]);
export const calls: readonly Call[] = [flow, best, mixed, page('a')];

export async function results(outlast: Outlast, tx: Parameters<Outlast['sendMany']>[0]) {
  const [told, all, one, plain] = await outlast.sendMany(tx, [flow, mixed, best, page('a')]);
  const answer: boolean = await told.result();
  const list: [string, boolean, boolean, void] = await all.result();
  const isString: Expect<Equal<typeof one, TaskHandle<string>>> = true;
  const isPlain: Expect<Equal<typeof plain, TaskHandle<string>>> = true;
  const many = await outlast.sendMany(tx, [group(['a', 'b'].map(page))]);
  const texts: string[] = await many[0].result();
  const alone = await outlast.send(tx, flow);
  const isAlone: Expect<Equal<typeof alone, TaskHandle<boolean>>> = true;
  const both: [string, boolean, boolean, void] = await (await outlast.send(tx, mixed)).result();
  const withInput = await outlast.send(tx, page('a'));
  const isWithInput: Expect<Equal<typeof withInput, TaskHandle<string>>> = true;
  // @ts-expect-error -- a workflow takes no input
  await outlast.send(tx, flow, 'a');
  // @ts-expect-error -- a step that waits for a value is no call
  await outlast.send(tx, publish.after({ page: '/' }));
  // @ts-expect-error -- the chain ends with a boolean
  const wrong: string = await told.result();
  return [answer, list, isString, isPlain, texts, isAlone, both, isWithInput, wrong];
}

// What a step is given by the one before it.
chain(resize.with({ args: ['a', 1] }), nightly, nightly.with(), nightly.after());
chain(announce.with('x'), page('takes nothing from before'), announce);
chain(publish.with({ image: { url: '' }, page: '' }), rename, rename.after({ loud: true }));
chain(publish.with({ image: { url: '' }, page: '' }), resize.after({ args: [800] }));
chain(
  publish.with({ image: { url: '' }, page: '' }),
  crop.after({ kwargs: { width: 1 } }, { priority: 9 }),
);
chain(crop.with({ args: ['a'], kwargs: { width: 1 } }), longest.with(['given']), announce.after());
const endless = chain(announce.with('x'), ...([] as ReturnType<typeof nightly.with>[]));
export const isCall: Call = endless;

chain(
  resize.with({ args: ['a', 1] }),
  // @ts-expect-error -- an object where a text is due
  announce,
);
chain(
  resize.with({ args: ['a', 1] }),
  publish.after({ page: '/' }),
  announce,
  // @ts-expect-error -- the compiler points at the step that does not fit, not at the chain
  announce,
  nightly,
);
chain(
  resize.with({ args: ['a', 1] }),
  // @ts-expect-error -- `page` is left open
  publish,
);
chain(
  rename.with({ name: 'x' }),
  // What travels is what the handler returned, not what `result()` makes of it.
  announce,
);
chain(
  nightly.with(),
  // @ts-expect-error -- the one before returns nothing
  announce,
);
chain(
  announce.with('x'),
  // @ts-expect-error -- there is no positional argument that a result could become
  clear,
);
// @ts-expect-error -- the first step has nothing before it
chain(announce, nightly);
// @ts-expect-error -- more arguments than are left
resize.after({ args: [800, 900] });
// @ts-expect-error -- not the type of the second argument
resize.after({ args: ['800'] });
// @ts-expect-error -- a keyword argument is left open
crop.after({});
// @ts-expect-error -- the first of `params` is the result before
publish.after({ image: { url: '' }, page: '/' });
// @ts-expect-error -- nothing is left to be given
announce.after('x');

chord(
  [announce.with('x')],
  // @ts-expect-error -- a list of booleans where texts are due
  longest,
);
chord([page('a'), page('b')], nightly);
chord([page('a'), page('b')], longest.with(['given']));
// @ts-expect-error -- a member has its input with it, or the group follows a task
export const unsendable: Call = group([announce]);
chord(
  [
    // @ts-expect-error -- the header of a chord follows nothing
    announce,
  ],
  nightly,
);

// Groups in a chain: what flows in goes to each member, what flows out is the list of their results.
const text = crop.with({ args: ['a'], kwargs: { width: 1 } });
const told = chain(text, group([rename, announce, page('x')]), anything);
export const ofGroup: Expect<Equal<typeof told, ChainCall<void, void>>> = true;
const atEnd = chain(text, group([announce, rename.after({ loud: true })]));
export const isList: Expect<Equal<ResultOf<typeof atEnd>, [boolean, number]>> = true;
const begun = chain(group([page('a'), page('b')]), longest, group([announce, flow]));
export const isChord: Expect<Equal<typeof begun, ChordCall<[boolean, boolean]>>> = true;
chain(group(['a', 'b'].map(page)), longest);
chain(
  group([page('a'), announce.with('x')]),
  // @ts-expect-error -- a text and a boolean where texts are due
  longest,
);
chain(
  resize.with({ args: ['a', 1] }),
  // @ts-expect-error -- one member cannot take what comes before
  group([publish.after({ page: '/' }), announce]),
);
chain(
  text,
  group([announce, rename]),
  // @ts-expect-error -- a task must stand between two groups
  group([anything, anything]),
);
chain(
  // @ts-expect-error -- the first group follows nothing
  group([announce]),
  anything,
);
// @ts-expect-error -- only tasks and chains stand in a group
group([group([nightly.with()])]);

// A result without a type fits only a step that takes anything.
chain(loose.with(), anything);
chain(
  loose.with(),
  // @ts-expect-error -- anything where a text is due
  announce,
);
