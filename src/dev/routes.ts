import { readFileSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { basename } from 'node:path';
import type { Logger } from '../telemetry/logger.ts';
import { killWorker, placeOrder, retryTask, type ActionDeps, type Answer } from './actions.ts';
import { Exchange, type Body } from './exchange.ts';
import { refusalOf } from './guard.ts';
import type { LiveView } from './live-view.ts';
import { ICON, renderPage } from './page/html.ts';
import { STYLES } from './page/styles.ts';
import { readSnapshot } from './read-snapshot.ts';

export interface RouteDeps extends ActionDeps {
  readonly view: LiveView;
  readonly log: Logger;
}

type Route = (exchange: Exchange) => void | Promise<void>;

const MAX_BODY_BYTES = 16_384;

/** The browser's code, compiled beside this file. */
const SCRIPTS: readonly URL[] = [
  new URL('./page/client.js', import.meta.url),
  new URL('./page/draw-task.js', import.meta.url),
  new URL('./page/element.js', import.meta.url),
  new URL('./page/format.js', import.meta.url),
];

/** All routes of the page. */
export function createRoutes(deps: RouteDeps): RequestListener {
  const routes = new Map([...pages(deps), ...live(deps), ...actions(deps)]);
  return (request, response) => {
    const exchange = new Exchange(request, response);
    const refusal = refusalOf(request);
    if (refusal) return exchange.refuse(refusal);
    const [path = ''] = (request.url ?? '').split('?');
    const route = routes.get(`${request.method} ${path}`);
    if (!route) return exchange.refuse({ status: 404, message: 'there is nothing here' });
    void answer(route, exchange, deps.log);
  };
}

async function answer(route: Route, exchange: Exchange, log: Logger): Promise<void> {
  try {
    await route(exchange);
  } catch (error) {
    if (!exchange.isOpen) return;
    log.error({ error }, 'an answer to the page failed');
    const message = 'something went wrong; the log of outlast dev says more';
    exchange.refuse({ status: 500, message });
  }
}

function* pages({ source }: RouteDeps): Generator<readonly [string, Route]> {
  const asset = (path: string, type: string, text: string): readonly [string, Route] => [
    `GET ${path}`,
    exchange => exchange.text(type, text),
  ];
  yield asset('/', 'text/html', renderPage({ hasShop: source.shop !== null }));
  yield asset('/assets/styles.css', 'text/css', STYLES);
  yield asset('/assets/icon.svg', 'image/svg+xml', ICON);
  for (const url of SCRIPTS) {
    const text = readFileSync(url, 'utf8');
    // The source maps are not served: a browser with its tools open would request them in vain.
    const code = text.replace(/^\/\/# sourceMappingURL=.*$/m, '');
    yield asset(`/assets/${basename(url.pathname)}`, 'text/javascript', code);
  }
}

function* live({ source, view }: RouteDeps): Generator<readonly [string, Route]> {
  yield ['GET /api/state', async exchange => exchange.json(await readSnapshot(source))];
  yield ['GET /api/live', exchange => exchange.stream(left => view.follow(left))];
}

function* actions(deps: RouteDeps): Generator<readonly [string, Route]> {
  const { source, view } = deps;
  const { shop } = source;
  type Act = (body: Body) => Promise<Answer>;
  const action = (path: string, act: Act): readonly [string, Route] => [
    `POST ${path}`,
    async exchange => {
      const body = await exchange.body(MAX_BODY_BYTES);
      if (body === null) return;
      if (source.isDraining())
        return exchange.refuse({ status: 503, message: 'Outlast dev is stopping.' });
      const { status, ...rest } = await act(body);
      view.hint();
      if (status === 200) exchange.json(rest);
      else exchange.refuse({ status, message: rest.message });
    },
  ];
  if (shop) yield action('/api/orders', body => placeOrder(shop, body));
  yield action('/api/workers/kill', body => killWorker(deps, body));
  yield action('/api/tasks/retry', body => retryTask(deps, body));
}
