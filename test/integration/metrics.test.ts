import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createOutlast } from '../../dist/index.js';
import { createMetrics } from '../../dist/metrics/index.js';
import { METRIC_NAMES, METRICS, rowOfMetric } from '../../src/metrics/catalogue.ts';
import { prometheusText } from '../../src/metrics/prometheus.ts';
import { Registry } from '../../src/metrics/registry.ts';
import { CliProject, SHOP, type CliProcess } from '../support/cli-project.ts';
import { migratedDatabase, until, type MigratedDatabase } from '../support/database.ts';
import { freePort } from '../support/free-port.ts';
import { promtoolPath } from '../support/servers.ts';

const document = (path: string): string =>
  readFileSync(fileURLToPath(new URL(`../../docs/${path}`, import.meta.url)), 'utf8');

/** Throws with what it prints, if it finds a fault. */
const promtool = (args: readonly string[], input = ''): string =>
  execFileSync(promtoolPath(), [...args], { input, encoding: 'utf8' });

const NAMES: ReadonlySet<string> = new Set(METRIC_NAMES);

/** Names in a text, without what histograms add. */
const namesIn = (text: string): readonly string[] => [
  ...new Set((text.match(/\boutlast_[a-z_]+/g) ?? []).map(name => name.replace(/_bucket$/, ''))),
];

describe('the documents about metrics', () => {
  it('the reference page names every metric, and no other', () => {
    const page = document('reference/metrics.md');
    const rows = page.split('\n').filter(line => line.startsWith('| `outlast_'));
    expect(rows.map(row => /`(\w+)`/.exec(row)?.[1])).toEqual([...METRIC_NAMES]);
    expect(namesIn(page).filter(name => name !== 'outlast_' && !NAMES.has(name))).toEqual([]);
  });

  it('have every name of the ancestors', () => {
    const statsd = METRIC_NAMES.map(name => rowOfMetric(name).statsd);
    expect(statsd).toEqual(
      expect.arrayContaining([
        'queue.depth',
        'dead_letter.count',
        'oldest_pending_age_seconds',
        'batch.duration_ms',
        'send_latency_ms',
        'messages.enqueued',
        'messages.published',
        'messages.failed',
        'messages.exceeded',
      ]),
    );
    const ofRelier = `tasks_total admission_total timeouts_total shutdowns_total resurrections_total
      dlq_quarantined_total idempotency_hits_total circuit_trips_total task_duration_seconds
      overhead_seconds resurrection_time_seconds shutdown_duration_seconds inflight_tasks`.split(
      /\s+/,
    );
    expect(ofRelier.filter(name => !NAMES.has(`outlast_${name}`))).toEqual([]);
  });

  it('the alert rules are valid, and use metrics that exist', () => {
    const path = fileURLToPath(
      new URL('../../docs/operations/prometheus-alerts.yml', import.meta.url),
    );
    expect(promtool(['check', 'rules', path])).toContain('SUCCESS');
    expect(
      namesIn(document('operations/prometheus-alerts.yml')).filter(n => !NAMES.has(n)),
    ).toEqual([]);
  });

  it('the dashboard has a panel for every metric, on a grid without overlaps', () => {
    const { panels, schemaVersion, title } = JSON.parse(
      document('operations/grafana-dashboard.json'),
    ) as {
      readonly schemaVersion: number;
      readonly title: string;
      readonly panels: readonly {
        readonly id: number;
        readonly type: string;
        readonly gridPos: { readonly x: number; readonly y: number };
        readonly targets: readonly { readonly expr: string; readonly refId: string }[];
      }[];
    };
    expect([typeof schemaVersion, title]).toEqual(['number', 'Outlast']);
    const used = panels.flatMap(({ targets }) => targets.flatMap(({ expr }) => namesIn(expr)));
    expect(used).toEqual([...METRIC_NAMES]);
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    const places = panels.map(({ gridPos: { x, y } }) => `${x},${y}`);
    expect(new Set(places).size).toBe(panels.length);
    const rules = panels.map(({ targets }, at) => {
      const expr = (targets[0]?.expr ?? '').replaceAll('$__rate_interval', '5m');
      return `  - record: panel:${at}\n    expr: '${expr}'\n`;
    });
    const file = `groups:\n- name: panels\n  rules:\n${rules.join('')}`;
    const folder = mkdtempSync(join(tmpdir(), 'outlast-panels-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const path = join(folder, 'panels.yml');
    writeFileSync(path, file);
    expect(promtool(['check', 'rules', path])).toContain(`${panels.length} rules found`);
  });

  it('Prometheus accepts every metric, whatever its labels say', () => {
    const registry = new Registry();
    for (const name of METRIC_NAMES) {
      const { kind, labels } = METRICS[name];
      const values = labels.map(label => `a "${label}"\n\\ 日本`);
      if (kind === 'histogram') registry.observe(name, values, 3);
      else registry.add(name, values, 2);
    }
    expect(promtool(['check', 'metrics'], prometheusText(registry.snapshot()))).toBe('');
  });
});

describe('GET /metrics', () => {
  let database: MigratedDatabase;
  let project: CliProject;
  let worker: CliProcess;
  let relay: CliProcess;
  const ports: number[] = [];

  const scrape = async (port: number | undefined): Promise<string> => {
    const answer = await fetch(`http://127.0.0.1:${port}/metrics`).catch(() => null);
    return (await answer?.text()) ?? '';
  };

  beforeAll(async () => {
    database = await migratedDatabase('metrics');
    await database.pool.query('create table began (id text)');
    project = new CliProject(SHOP, { OUTLAST_DATABASE_URL: database.url });
    ports.push(await freePort(), await freePort());
    const port = (at: number): string[] => ['--health-port', String(ports[at])];
    worker = project.start(['worker', '--processes', '2', ...port(0)]);
    relay = project.start(['relay', ...port(1)]);
    await worker.says('worker open');
  });

  afterAll(async () => {
    await Promise.all([worker.stop(), relay.stop()]);
    await project.dispose();
    await database.dispose();
  });

  it('of a supervisor has what its children have counted, and of a relay the backlog', async () => {
    await project.run('send', 'shop.echo', '--kwargs', '{"n": 1}');
    const series = 'outlast_tasks_total{task="shop.echo",status="completed",reason=""} 1';
    const both = 'outlast_up{process="worker"} 2';
    const text = await until(async () => {
      const scraped = await scrape(ports[0]);
      return scraped.includes(series) && scraped.includes(both) && scraped;
    });
    expect(text).toContain('outlast_up{process="supervisor"} 1');
    expect(promtool(['check', 'metrics'], text)).toBe('');
    expect(text).toMatch(/^outlast_prefetched_messages 0$/m);
    expect(text).toMatch(/^outlast_pool_waits \d+$/m);
    // Without a broker no relay is deployed: the supervisor samples the backlog itself.
    for (const port of ports)
      await until(async () => (await scrape(port)).includes('\noutlast_queue_depth 0\n'));
    expect(promtool(['check', 'metrics'], await scrape(ports[1]))).toBe('');
  });

  it('is refused to a web page that reaches the port under another name', async () => {
    const { request } = await import('node:http');
    const status = await new Promise<number | undefined>(resolve => {
      const headers = { host: 'evil.example' };
      request({ port: ports[0], path: '/metrics', headers }, ({ statusCode }) =>
        resolve(statusCode),
      ).end();
    });
    expect(status).toBe(403);
  });

  it('is a route of your own application too', async () => {
    const outlast = createOutlast({ database: database.url });
    const metrics = await createMetrics(outlast);
    const answer = metrics.fetch();
    expect(answer.headers.get('content-type')).toContain('version=0.0.4');
    expect(await answer.text()).toContain('outlast_up{process="application"} 1');
    await metrics.close();
    await outlast.close();
  });
});
