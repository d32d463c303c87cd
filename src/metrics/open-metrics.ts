import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { ResolvedMetrics } from '../config/metrics.ts';
import type { Events } from '../telemetry/events.ts';
import { DogStatsd } from './dogstatsd.ts';
import { feedRegistry } from './feed.ts';
import { feedMeter, globalMeter } from './opentelemetry.ts';
import { Registry } from './registry.ts';

export interface OpenMetrics {
  readonly registry: Registry;
  close(): Promise<void>;
}

export interface MetricsSource {
  readonly events: Events;
  readonly settings: ResolvedMetrics;
  /** The kind of the process: `relay`, `worker`, … */
  readonly process: string;
  /** Sets gauges, before each reading. */
  readonly gauges?: (registry: Registry) => void;
}

const DELAY_RESOLUTION_MS = 20;
const DELAY_WINDOW_MS = 15_000;

interface Shared {
  readonly open: Promise<OpenMetrics>;
  users: number;
}

/** By the events they count: an application and the services in its process have one registry, and export each event once. */
const SHARED = new WeakMap<object, Shared>();

/** Counts what happens in this process, and exports it as the configuration says. The caller that opens it closes it. */
export async function openMetrics(source: MetricsSource): Promise<OpenMetrics> {
  const { events, process, gauges } = source;
  const shared = SHARED.get(events) ?? { open: startMetrics(source), users: 0 };
  SHARED.set(events, shared);
  shared.users += 1;
  const leave = async (): Promise<void> => {
    shared.users -= 1;
    if (shared.users > 0) return;
    SHARED.delete(events);
    await (await shared.open).close();
  };
  try {
    const { registry } = await shared.open;
    const forget = registry.beforeReading(() => {
      registry.set('outlast_up', [process], 1);
      gauges?.(registry);
    });
    return {
      registry,
      close: () => {
        forget();
        return leave();
      },
    };
  } catch (error) {
    SHARED.delete(events);
    throw error;
  }
}

async function startMetrics({ events, settings }: MetricsSource): Promise<OpenMetrics> {
  const registry = new Registry(settings.tasks === null ? {} : { tasks: settings.tasks });
  const meter = settings.opentelemetry ? await globalMeter() : null;
  const undo = [feedRegistry(events, registry), watchLoop(registry)];
  if (meter) undo.push(feedMeter(registry, meter));
  const { dogstatsd } = settings;
  const agent = dogstatsd === null ? null : new DogStatsd(registry, dogstatsd);
  return {
    registry,
    close: async () => {
      await agent?.close();
      for (const off of undo) off();
    },
  };
}

function watchLoop(registry: Registry): () => void {
  const delay = monitorEventLoopDelay({ resolution: DELAY_RESOLUTION_MS });
  delay.enable();
  const seconds = (ns: number): number =>
    Number.isFinite(ns) ? Math.max(0, ns / 1e9 - DELAY_RESOLUTION_MS / 1e3) : 0;
  let before = { p99: 0, max: 0 };
  let since = performance.now();
  const forget = registry.beforeReading(() => {
    const now = { p99: seconds(delay.percentile(99)), max: seconds(delay.max) };
    for (const of of ['p99', 'max'] as const)
      registry.set('outlast_event_loop_delay_seconds', [of], Math.max(now[of], before[of]));
    // Several exporters read: none of them may take a peak away from the others.
    if (performance.now() - since < DELAY_WINDOW_MS) return;
    [before, since] = [now, performance.now()];
    delay.reset();
  });
  return () => {
    forget();
    delay.disable();
  };
}
