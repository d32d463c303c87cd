import { createSocket } from 'node:dgram';
import { rowOfMetric, type MetricName } from './catalogue.ts';
import type { Labels, Registry } from './registry.ts';

export interface StatsdTarget {
  readonly host: string;
  readonly port: number;
}

const FLUSH_MS = 1_000;
/** Below the usual limit of a datagram on a network of 1500 bytes. */
const PACKET_BYTES = 1_400;
/** Of one series in one flush; of more a sample is sent, with its rate. */
const MOST_SAMPLES = 50;
const PREFIX = 'outlast.';

interface Pending {
  readonly name: MetricName;
  readonly labels: Labels;
  total: number;
  /** Of a histogram: how many there were, and the first of them. */
  count: number;
  readonly samples: number[];
}

/** Sends the figures of a registry over UDP, once a second. Nothing waits for it, and what is lost is lost. */
export class DogStatsd {
  readonly #registry: Registry;
  readonly #target: StatsdTarget;
  readonly #socket = createSocket('udp4');
  readonly #pending = new Map<string, Pending>();
  readonly #undo: () => void;
  readonly #timer: NodeJS.Timeout;

  constructor(registry: Registry, target: StatsdTarget) {
    this.#registry = registry;
    this.#target = target;
    this.#socket.unref();
    // An agent that is away answers with an ICMP error; that is no reason to end.
    this.#socket.on('error', () => undefined);
    this.#undo = registry.onSample((name, labels, value) => this.#note(name, labels, value));
    this.#timer = setInterval(() => this.flush(), FLUSH_MS);
    this.#timer.unref();
  }

  #note(name: MetricName, labels: Labels, value: number): void {
    const key = `${name}\n${labels.join('\n')}`;
    const pending = this.#pending.get(key) ?? { name, labels, total: 0, count: 0, samples: [] };
    this.#pending.set(key, pending);
    pending.count += 1;
    pending.total += value;
    if (pending.samples.length < MOST_SAMPLES) pending.samples.push(value);
  }

  flush(): void {
    const lines = [...this.#pending.values()].map(lineOfPending);
    this.#pending.clear();
    for (const [key, series] of Object.entries(this.#registry.snapshot())) {
      const name = key as MetricName;
      if (rowOfMetric(name).kind !== 'gauge') continue;
      for (const [labels, value] of series ?? [])
        if (typeof value === 'number') lines.push(lineOf(name, labels, `${value}|g`));
    }
    for (const packet of packetsOf(lines))
      this.#socket.send(packet, this.#target.port, this.#target.host, () => undefined);
  }

  /** Sends what is left. */
  close(): Promise<void> {
    clearInterval(this.#timer);
    this.#undo();
    this.flush();
    return new Promise(resolve => {
      this.#socket.ref();
      this.#socket.close(() => resolve());
    });
  }
}

function lineOfPending({ name, labels, total, count, samples }: Pending): string {
  const { kind, statsdScale = 1 } = rowOfMetric(name);
  if (kind === 'counter') return lineOf(name, labels, `${total}|c`);
  const values = samples.map(value => Math.round(value * statsdScale * 1_000) / 1_000).join(':');
  const rate = count > samples.length ? `|@${(samples.length / count).toFixed(4)}` : '';
  return lineOf(name, labels, `${values}|d${rate}`);
}

function lineOf(name: MetricName, values: Labels, value: string): string {
  const { statsd, labels } = rowOfMetric(name);
  const tags = labels.map((label, at) => `${tagOf(label)}:${safe(values[at] ?? '')}`);
  return `${PREFIX}${statsd}:${value}${tags.length === 0 ? '' : `|#${tags.join(',')}`}`;
}

/** As django-celery-outbox calls it. */
const tagOf = (label: string): string => (label === 'task' ? 'task_name' : label);

/** What separates the parts of a line must not be in a value. */
const safe = (value: string): string => value.replaceAll(/[^\w.\-/]/g, '_');

function packetsOf(lines: readonly string[]): readonly string[] {
  const packets: string[] = [];
  for (const line of lines) {
    const last = packets.at(-1);
    if (last !== undefined && last.length + line.length < PACKET_BYTES)
      packets[packets.length - 1] = `${last}\n${line}`;
    else packets.push(line);
  }
  return packets;
}
