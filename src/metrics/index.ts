import type { IncomingMessage, ServerResponse } from 'node:http';
import { CONTEXT, type Outlast } from '../app/outlast.ts';
import { openMetrics } from './open-metrics.ts';
import { prometheusText } from './prometheus.ts';

/** The figures of this process, for a route of your own application. */
export interface Metrics {
  /** Prometheus's text format. */
  text(): string;
  /** For Node's `http`, Express and Connect: `app.get('/metrics', metrics.handler)`. */
  readonly handler: (request: IncomingMessage, response: ServerResponse) => void;
  /** For frameworks with `Request` and `Response`: Hono, Next.js. */
  readonly fetch: () => Response;
  close(): Promise<void>;
}

const TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/**
 * Counts the events of an instance and of the services started on it, and exports them as `metrics` in its configuration
 * says.
 *
 * @example
 * const metrics = await createMetrics(outlast);
 * app.get('/metrics', metrics.handler);
 */
export async function createMetrics(
  outlast: Pick<Outlast<never>, typeof CONTEXT>,
): Promise<Metrics> {
  const { events, config } = outlast[CONTEXT];
  const open = await openMetrics({ events, settings: config.metrics, process: 'application' });
  const text = (): string => prometheusText(open.registry.snapshot());
  return {
    text,
    handler: (_request, response) =>
      void response.writeHead(200, { 'content-type': TYPE }).end(text()),
    fetch: () => new Response(text(), { headers: { 'content-type': TYPE } }),
    close: () => open.close(),
  };
}
