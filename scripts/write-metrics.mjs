// @ts-check
/**
 * Writes what follows from the table in src/metrics/catalogue.ts: the reference page and the dashboard for Grafana. `--check`
 * writes nothing and fails when a file is not what the table says.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createJiti } from 'jiti';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const jiti = createJiti(import.meta.url, { fsCache: false });
/** @type {typeof import('../src/metrics/catalogue.ts')} */
const { METRIC_NAMES, METRICS } = await jiti.import(join(ROOT, 'src/metrics/catalogue.ts'));

const PAGE = 'docs/reference/metrics.md';
const DASHBOARD = 'docs/operations/grafana-dashboard.json';
const [FROM, TO] = ['<!-- metrics -->', '<!-- end of metrics -->'];

const rows = METRIC_NAMES.map(name => {
  const { kind, labels, sentence, statsd } = METRICS[name];
  const tags = labels.length === 0 ? '–' : labels.map(label => `\`${label}\``).join(', ');
  return `| \`${name}\` | \`outlast.${statsd}\` | ${kind} | ${tags} | ${sentence} |`;
});
const table = [
  '| Prometheus | DogStatsD | kind | labels | meaning |',
  '| --- | --- | --- | --- | --- |',
  ...rows,
].join('\n');

/** @param {string} text */
function page(text) {
  const [before, after] = [text.indexOf(FROM), text.indexOf(TO)];
  if (before < 0 || after < 0) throw new Error(`${PAGE} has no place for the table`);
  return `${text.slice(0, before + FROM.length)}\n\n${table}\n\n${text.slice(after)}`;
}

/** @param {(typeof METRIC_NAMES)[number]} name */
function target(name) {
  const { kind, labels } = METRICS[name];
  const by = labels.length === 0 ? '' : ` by (${labels.join(', ')})`;
  const legendFormat = labels.map(label => `{{${label}}}`).join(' ') || name;
  if (kind === 'counter')
    return { refId: 'A', legendFormat, expr: `sum${by} (rate(${name}[$__rate_interval]))` };
  if (kind === 'gauge') return { refId: 'A', legendFormat, expr: `max${by} (${name})` };
  const all = ['le', ...labels].join(', ');
  return {
    refId: 'A',
    legendFormat: `p95 ${legendFormat}`,
    expr: `histogram_quantile(0.95, sum by (${all}) (rate(${name}_bucket[$__rate_interval])))`,
  };
}

const PER_ROW = 3;
const [WIDTH, HEIGHT] = [24 / PER_ROW, 8];

function dashboard() {
  const panels = METRIC_NAMES.map((name, index) => ({
    id: index + 1,
    type: 'timeseries',
    title: name.replace(/^outlast_/, '').replaceAll('_', ' '),
    description: METRICS[name].sentence,
    datasource: { type: 'prometheus', uid: '${datasource}' },
    gridPos: {
      x: (index % PER_ROW) * WIDTH,
      y: Math.floor(index / PER_ROW) * HEIGHT,
      w: WIDTH,
      h: HEIGHT,
    },
    fieldConfig: {
      defaults: {
        unit: name.endsWith('_seconds') ? 's' : name.endsWith('_bytes') ? 'bytes' : 'short',
        min: 0,
      },
      overrides: [],
    },
    targets: [target(name)],
  }));
  const made = {
    title: 'Outlast',
    uid: 'outlast',
    tags: ['outlast'],
    schemaVersion: 39,
    editable: true,
    refresh: '30s',
    time: { from: 'now-6h', to: 'now' },
    templating: {
      list: [{ name: 'datasource', type: 'datasource', query: 'prometheus', label: 'Data source' }],
    },
    annotations: { list: [] },
    panels,
  };
  return `${JSON.stringify(made, null, 2)}\n`;
}

const isCheck = process.argv.includes('--check');
for (const [file, make] of /** @type {const} */ ([
  [PAGE, page],
  [DASHBOARD, dashboard],
])) {
  const path = join(ROOT, file);
  const before = existsSync(path) ? readFileSync(path, 'utf8') : '';
  const after = make(before);
  if (after === before) continue;
  if (!isCheck) writeFileSync(path, after);
  else {
    console.error(`${file} is not what the table says: npm run build`);
    process.exitCode = 1;
  }
}
