import { METRIC_NAMES, rowOfMetric } from './catalogue.ts';
import type { Histogram, Snapshot } from './registry.ts';

/** The text format of Prometheus. */
export function prometheusText(snapshot: Snapshot): string {
  const lines: string[] = [];
  for (const name of METRIC_NAMES) {
    const series = snapshot[name];
    if (series === undefined) continue;
    const { kind, labels, sentence, buckets = [] } = rowOfMetric(name);
    lines.push(`# HELP ${name} ${sentence.replaceAll('\\', '\\\\')}`, `# TYPE ${name} ${kind}`);
    for (const [values, value] of series) {
      const pairs = labels.map((label, at) => `${label}="${escaped(values[at] ?? '')}"`);
      if (typeof value === 'number') lines.push(`${name}${braced(pairs)} ${value}`);
      else lines.push(...histogramLines(name, pairs, buckets, value));
    }
  }
  return `${lines.join('\n')}\n`;
}

function histogramLines(
  name: string,
  pairs: readonly string[],
  buckets: readonly number[],
  { counts, sum, count }: Histogram,
): readonly string[] {
  let sofar = 0;
  const lines = buckets.map((bound, at) => {
    sofar += counts[at] ?? 0;
    return `${name}_bucket${braced([...pairs, `le="${bound}"`])} ${sofar}`;
  });
  return [
    ...lines,
    `${name}_bucket${braced([...pairs, 'le="+Inf"'])} ${count}`,
    `${name}_sum${braced(pairs)} ${sum}`,
    `${name}_count${braced(pairs)} ${count}`,
  ];
}

const braced = (pairs: readonly string[]): string =>
  pairs.length === 0 ? '' : `{${pairs.join(',')}}`;

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '"': '\\"', '\n': '\\n' };

const escaped = (value: string): string => value.replaceAll(/[\\"\n]/g, at => ESCAPES[at] ?? at);
