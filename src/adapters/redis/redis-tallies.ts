import {
  addUp,
  type Bucket,
  KEPT_FIGURES,
  type Objective,
  type ObjectiveCounts,
  type TaskTotals,
} from '../../ledger/tallies.ts';
import type { Slo } from '../../task/slo.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';
import { pack, unpack } from './redis-pack.ts';

/** The argument of `ledger-open` about objectives: names that promise nothing, and pairs of names and promises. */
export function packObjectives(promised: Readonly<Record<string, Slo | null>>): Buffer {
  const all = Object.entries(promised);
  const without = all.flatMap(([name, slo]) => (slo === null ? [name] : []));
  const said = all.flatMap(([name, slo]) => (slo === null ? [] : [name, textOf(slo)]));
  return pack([without, said]);
}

const NONE = '-';

const textOf = ({ success, latency }: Slo): string =>
  [success ?? NONE, latency?.withinMs ?? NONE, latency?.target ?? NONE].join(' ');

function sloOf(text: string): Slo {
  const [success, within, target] = text
    .split(' ')
    .map(word => (word === NONE ? null : Number(word)));
  const latency =
    within === null || within === undefined || target === null || target === undefined
      ? null
      : { withinMs: within, target };
  return { success: success ?? null, latency };
}

/** Adds minutes to hours when they are old, and forgets what no window needs. */
export async function ageTallies(connection: RedisConnection, root: string): Promise<void> {
  const names = (await connection.command('hkeys', `${root}objectives`)) as readonly Buffer[];
  for (const name of names) await connection.script(LUA.ledgerTallyAge, [root], [name]);
}

export async function totals(
  connection: RedisConnection,
  roots: readonly string[],
): Promise<readonly TaskTotals[]> {
  const lists = await Promise.all(
    roots.map(
      root => connection.script(LUA.ledgerTotals, [root], []) as Promise<readonly Buffer[]>,
    ),
  );
  return addUp(
    lists
      .flatMap(list => [...pairsOf(list)])
      .map(([field, count]) => {
        const [name, queue, figure] = (unpack(field) as readonly Buffer[]).map(String);
        return { name: name ?? '', queue: queue ?? '', figure: figure ?? '', count: Number(count) };
      }),
  );
}

type ObjectivesReply = readonly [
  storeMs: number,
  found: readonly (readonly [Buffer, Buffer, readonly Buffer[]])[],
];

/** One round trip for each root; a single server has one. */
export async function objectives(
  connection: RedisConnection,
  roots: readonly string[],
): Promise<ObjectiveCounts> {
  const replies = (await Promise.all(
    roots.map(root => connection.script(LUA.ledgerObjectives, [root], [])),
  )) as readonly ObjectivesReply[];
  const found = new Map<string, Objective & { buckets: Bucket[] }>();
  for (const [name, said, counts] of replies.flatMap(([, of]) => of)) {
    // The home comes first: every worker opens there.
    const known = found.get(String(name)) ?? {
      name: String(name),
      slo: sloOf(String(said)),
      buckets: [],
    };
    found.set(String(name), known);
    for (const [field, count] of pairsOf(counts)) {
      const [word, startMs] = String(field).split(':');
      const figure = KEPT_FIGURES.find(one => one === word);
      if (figure !== undefined)
        known.buckets.push({ startMs: Number(startMs), figure, count: Number(count) });
    }
  }
  const sorted = [...found.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return { nowMs: Math.max(...replies.map(([storeMs]) => storeMs)), objectives: sorted };
}

function* pairsOf(values: readonly Buffer[]): Iterable<readonly [Buffer, string]> {
  for (let at = 0; at + 1 < values.length; at += 2)
    yield [values[at] as Buffer, String(values[at + 1])];
}
