import { createSocket } from 'node:dgram';
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { rowOfMetric, type MetricName } from './catalogue.ts';
import type { Labels, Registry } from './registry.ts';

export interface StatsdTarget {
  readonly host: string;
  readonly port: number;
}

/** The address of a name. */
type Resolve = (host: string) => Promise<string>;

const resolveByDns: Resolve = async host => (await lookup(host, { family: 4 })).address;

const FLUSH_MS = 1_000;
/** How often a name is looked up again: an agent may move. */
const LOOKUP_MS = 30_000;
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
  readonly #resolve: Resolve;
  readonly #socket = createSocket('udp4');
  readonly #pending = new Map<string, Pending>();
  readonly #undo: () => void;
  readonly #timer: NodeJS.Timeout;
  /** Null: its name was not resolved yet. */
  #address: string | null;
  #isResolving = false;
  #resolveAgainAt = -Infinity;

  constructor(registry: Registry, target: StatsdTarget, resolve: Resolve = resolveByDns) {
    this.#registry = registry;
    this.#target = target;
    this.#resolve = resolve;
    this.#address = isIP(target.host) === 0 ? null : target.host;
    this.#socket.unref();
    // An agent that is away answers with an ICMP error; that is no reason to end.
    this.#socket.on('error', () => undefined);
    this.#undo = registry.onSample((name, labels, value) => this.#note(name, labels, value));
    this.#timer = setInterval(() => this.flush(), FLUSH_MS);
    this.#timer.unref();
    this.#lookUp();
  }

  /**
   * One look-up at a time, and not one for every packet, as the socket would do: each takes a thread of the few that all of
   * the process shares, and keeps it for as long as a silent name server lets it wait.
   */
  #lookUp(): void {
    const { host } = this.#target;
    const now = performance.now();
    if (isIP(host) !== 0 || this.#isResolving || now < this.#resolveAgainAt) return;
    this.#isResolving = true;
    this.#resolve(host)
      .then(address => {
        this.#address = address;
        this.#resolveAgainAt = performance.now() + LOOKUP_MS;
      })
      // The last address may still be right.
      .catch(() => undefined)
      .finally(() => {
        this.#isResolving = false;
      });
  }

  #note(name: MetricName, labels: Labels, value: number): void {
    const key = `${name}\n${labels.join('\n')}`;
    const pending = this.#pending.get(key) ?? { name, labels, total: 0, count: 0, samples: [] };
    this.#pending.set(key, pending);
    pending.count += 1;
    pending.total += value;
    if (pending.samples.length < MOST_SAMPLES) pending.samples.push(value);
  }

  /** As long as the address is not known the figures are kept, and added up. */
  flush(): void {
    this.#lookUp();
    const address = this.#address;
    if (address === null) return;
    const lines = [...this.#pending.values()].map(lineOfPending);
    this.#pending.clear();
    for (const [key, series] of Object.entries(this.#registry.snapshot())) {
      const name = key as MetricName;
      if (rowOfMetric(name).kind !== 'gauge') continue;
      for (const [labels, value] of series ?? [])
        if (typeof value === 'number') lines.push(lineOf(name, labels, `${value}|g`));
    }
    for (const packet of packetsOf(lines))
      this.#socket.send(packet, this.#target.port, address, () => undefined);
  }

  /** Sends what is left, if the address is known. */
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
