import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { Hono, type Context } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { streamSSE } from 'hono/streaming';
import type { Logger } from '../telemetry/logger.ts';
import { killWorker, placeOrder, retryTask, type ActionDeps, type Answer } from './actions.ts';
import { refuse, refuseForeignAction, refuseForeignHost, secureHeaders } from './guard.ts';
import type { LiveView } from './live-view.ts';
import { ICON, renderPage } from './page/html.ts';
import { STYLES } from './page/styles.ts';
import { readSnapshot } from './read-snapshot.ts';

export interface RouteDeps extends ActionDeps {
  readonly view: LiveView;
  readonly log: Logger;
}

const MAX_BODY_BYTES = 16_384;
/** How soon the browser reconnects after `outlast dev` was stopped and started. */
const RECONNECT_MS = 1_000;

/** The browser's code, compiled beside this file. */
const SCRIPTS: readonly URL[] = [
  new URL('./page/client.js', import.meta.url),
  new URL('./page/draw-task.js', import.meta.url),
  new URL('./page/element.js', import.meta.url),
  new URL('./page/format.js', import.meta.url),
];

/** All routes of the page. */
export function createRoutes(deps: RouteDeps): Hono {
  const app = new Hono();
  app.use(secureHeaders, refuseForeignHost);
  addPage(app, deps);
  addLive(app, deps);
  addActions(app, deps);
  app.notFound(context => refuse(context, 404, 'there is nothing here'));
  app.onError((error, context) => {
    deps.log.error({ error }, 'an answer to the page failed');
    return refuse(context, 500, 'something went wrong; the log of outlast dev says more');
  });
  return app;
}

function addPage(app: Hono, { source }: RouteDeps): void {
  const page = renderPage({ hasShop: source.shop !== null });
  app.get('/', context => context.html(page));
  const asset = (path: string, type: string, text: string): void => {
    app.get(path, context => context.body(text, 200, { 'content-type': `${type}; charset=utf-8` }));
  };
  asset('/assets/styles.css', 'text/css', STYLES);
  asset('/assets/icon.svg', 'image/svg+xml', ICON);
  for (const url of SCRIPTS) {
    const text = readFileSync(url, 'utf8');
    const path = `/assets/${basename(url.pathname)}`;
    // The source maps are not served: a browser with its tools open would request them in vain.
    asset(path, 'text/javascript', text.replace(/^\/\/# sourceMappingURL=.*$/m, ''));
  }
}

function addLive(app: Hono, { source, view }: RouteDeps): void {
  app.get('/api/state', async context => context.json(await readSnapshot(source)));
  app.get('/api/live', context =>
    streamSSE(context, async stream => {
      const left = new AbortController();
      stream.onAbort(() => left.abort());
      for await (const data of view.follow(left.signal)) {
        await stream.writeSSE({ event: 'snapshot', data, retry: RECONNECT_MS });
      }
    }),
  );
}

function addActions(app: Hono, deps: RouteDeps): void {
  const { source, view } = deps;
  const { shop } = source;
  app.use('/api/*', refuseForeignAction);
  const onError = (context: Context): Response => refuse(context, 413, 'that is too much');
  app.use('/api/*', bodyLimit({ maxSize: MAX_BODY_BYTES, onError }));
  const action = (path: string, act: (body: Record<string, unknown>) => Promise<Answer>): void => {
    app.post(path, async context => {
      const body: unknown = await context.req.json().catch(() => null);
      if (typeof body !== 'object' || body === null) return refuse(context, 400, 'send an object');
      if (source.isDraining()) return refuse(context, 503, 'Outlast dev is stopping.');
      const { status, ...answer } = await act(body as Record<string, unknown>);
      view.hint();
      return status === 200
        ? context.json(answer)
        : context.json({ error: { message: answer.message } }, status);
    });
  };
  if (shop) action('/api/orders', body => placeOrder(shop, body));
  action('/api/workers/kill', body => killWorker(deps, body));
  action('/api/tasks/retry', body => retryTask(deps, body));
}
