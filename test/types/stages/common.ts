/**
 * What the examples of the API reference stand on. Compiled, never run. Names that mean something else for one entry
 * point are in a file of its name.
 */
import type { Pool, PoolClient } from 'pg';
import { z as zod } from 'zod';
import { fromPg as pgAdapter } from 'outlast/pg';
import { task, unchecked, type Handler, type Outlast, type OutlastConfig } from 'outlast';
import type { TestKit } from 'outlast/testing';

export const z = zod;
export const fromPg = pgAdapter;

export const charge = task('billing.charge', {
  input: zod.object({ orderId: zod.string(), cents: zod.number() }),
  result: unchecked<{ chargeId: string }>(),
});
export const resize = task('images.resize', {
  args: zod.tuple([zod.string(), zod.number()]),
  kwargs: zod.object({ taken: zod.unknown().optional() }),
  result: zod.object({ url: zod.string() }),
});
export const publish = task('site.publish', {
  params: ['image', 'page'],
  input: zod.object({ image: zod.object({ url: zod.string() }), page: zod.string() }),
  result: zod.string(),
});
export const announce = task('site.announce', { input: zod.string(), result: zod.boolean() });
export const longest = task('site.longest', {
  input: zod.array(zod.string()),
  result: zod.string(),
});
export const fetchPage = task('site.fetch-page', {
  input: zod.object({ url: zod.string() }),
  result: zod.string(),
});
export const listPages = task('site.list-pages', {
  input: zod.object({ site: zod.string() }),
  result: zod.array(zod.string()),
});
export const countWords = task('site.count-words', {
  input: zod.array(zod.string()),
  result: zod.number(),
});
export const countLinks = task('site.count-links', {
  input: zod.array(zod.string()),
  result: zod.number(),
});
export const report = task('site.report', { input: zod.array(zod.number()) });

export declare const pool: Pool;
export declare const config: OutlastConfig;
export declare const outlast: Outlast<PoolClient>;
export declare const chargeHandler: Handler;
export declare const charging: (
  input: { orderId: string; cents: number },
  ctx: object,
) => Promise<void>;
export declare const kit: TestKit;
export declare const logger: { info(fields: object, text: string): void };
export declare const app: {
  use(middleware: (req: { id: string }, res: object, next: () => void) => void): void;
};
export declare const site: string;
export declare const urls: readonly string[];
export declare const first: { image: { url: string }; page: string };
export declare const second: { image: { url: string }; page: string };
export declare const input: { readonly cents: number };
export declare const order: { readonly cancelled: boolean };
export declare const reply: string;
export declare const error: unknown;
