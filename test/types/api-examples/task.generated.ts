// Written by scripts/write-api.mjs from the comments in src.
import { chain, chord, group, python, task, unchecked } from 'outlast/task';
import { announce, countLinks, countWords, fetchPage, first, listPages, longest, outlast, publish, report, resize, second, site, urls, z } from '../stages/common.ts';

export async function example1(): Promise<unknown> {
  const sendReceipt = task('shop.send-receipt', {
    input: z.object({ orderId: z.string() }), result: z.object({ mailId: z.string() }), timeout: '30s',
  });
  return [sendReceipt];
}

export async function example2(): Promise<unknown> {
  chain(resize.with({ args: ['a.png', 800] }), publish.after({ page: '/' }), announce);
  return [];
}

export async function example3(): Promise<unknown> {
  chain(listPages.with({ site }), group([countWords, countLinks]), report);
  return [];
}

export async function example4(): Promise<unknown> {
  chord(urls.map(url => fetchPage.with({ url })), longest);
  return [];
}

export async function example5(): Promise<unknown> {
  group([publish.with(first), publish.with(second)]);
  return [];
}

export async function example6(): Promise<unknown> {
  await outlast.push(resize, { args: ['a.png', 800], kwargs: { taken: python.date('2026-03-01') } });
  return [];
}

export async function example7(): Promise<unknown> {
  task('billing.charge', { result: unchecked<{ chargeId: string }>() });
  return [];
}
