import type { RedisConnection } from '../../src/adapters/redis/redis-connection.ts';
import { unpack, type Unpacked } from '../../src/adapters/redis/redis-pack.ts';
import { isSuspect } from '../../src/ledger/ledger.ts';

/** The positions of a record that the audit reads, as `lua/includes/ledger-record.lua` numbers them. */
const POSITION = {
  state: 1,
  epoch: 2,
  run: 3,
  owner: 4,
  name: 6,
  queue: 7,
  body: 14,
  failures: 15,
  crashes: 16,
  budget: 17,
  due: 18,
  checkpointEpoch: 22,
  keep: 30,
} as const;

type Audited = Record<keyof typeof POSITION, string>;

/**
 * What is wrong under one root: every record must be in exactly those sets that its state says, every set must hold
 * nothing else, and every counter must be what counting gives. Nothing may be at work meanwhile.
 */
export async function auditRedisLedger(
  connection: RedisConnection,
  root: string,
  keys: readonly string[],
): Promise<readonly string[]> {
  const own = keys.filter(key => key.startsWith(root)).map(key => key.slice(root.length));
  const tasks = new Map<string, Audited>();
  for (const key of own.filter(name => name.startsWith('t:'))) {
    const raw = (await connection.command('get', root + key)) as Buffer | null;
    if (raw !== null) tasks.set(key.slice(2), readAudited(raw));
  }
  const found = await Promise.all([
    auditWaiting(connection, root, own, tasks),
    auditRunning(connection, root, own, tasks),
    auditAside(connection, root, own, tasks),
    auditDead(connection, root, tasks),
    auditFailing(connection, root, tasks),
  ]);
  return [...found.flat(), ...auditBytes(own, tasks)];
}

function readAudited(raw: Buffer): Audited {
  const fields = unpack(raw) as readonly Unpacked[];
  const entries = Object.entries(POSITION).map(([name, position]) => [
    name,
    String(fields[position - 1]),
  ]);
  return Object.fromEntries(entries) as Audited;
}

type Tasks = ReadonlyMap<string, Audited>;

function compare(what: string, is: readonly string[], should: readonly string[]): string[] {
  const [left, right] = [is.toSorted().join(', '), should.toSorted().join(', ')];
  return left === right ? [] : [`${what}: is [${left}], should be [${right}]`];
}

async function auditWaiting(
  connection: RedisConnection,
  root: string,
  own: readonly string[],
  tasks: Tasks,
): Promise<string[]> {
  const is: string[] = [];
  for (const key of own) {
    const [, time, suspected, queue] = /^(ready|later)(-suspects)?:(.*)$/.exec(key) ?? [];
    if (time === undefined) continue;
    const members = await connection.command('zrange', root + key, 0, -1);
    for (const member of members as readonly Buffer[]) {
      is.push(`${String(member).slice(11)} in ${queue}${suspected ?? ''}`);
    }
  }
  const aside = (await connection.command('zrange', `${root}aside`, 0, -1)) as readonly Buffer[];
  const asideIds = new Set(aside.map(String));
  is.push(...[...asideIds].map(id => `${id} in ${tasks.get(id)?.queue}`));
  const waiting = [...tasks].filter(([, { state }]) => state === 'w');
  const should = waiting.map(([id, { queue, crashes, budget }]) => {
    const isApart = isSuspect(Number(crashes), Number(budget)) && !asideIds.has(id);
    const suspected = isApart ? '-suspects' : '';
    return `${id} in ${queue}${suspected}`;
  });
  return compare('waiting', is, should);
}

async function auditRunning(
  connection: RedisConnection,
  root: string,
  own: readonly string[],
  tasks: Tasks,
): Promise<string[]> {
  const is: string[] = [];
  for (const key of own.filter(name => name.startsWith('r:'))) {
    for (const [id, value] of await fieldsOf(connection, root + key)) {
      is.push(`${id} ${value} by ${key.slice(2)}`);
    }
  }
  const running = [...tasks].filter(([, { state }]) => state === 'r');
  const should = running.map(([id, { epoch, run, owner, checkpointEpoch }]) => {
    const isMore = checkpointEpoch === epoch;
    return `${id} ${isMore ? '+' : ''}${epoch} ${run} by ${owner}`;
  });
  const counted = await fieldsOf(connection, `${root}running`);
  const counts = counted.filter(([, n]) => n !== '0').map(([queue, n]) => `${queue} ${n}`);
  const queues = Object.entries(countBy(running.map(([, { queue }]) => queue)));
  return [
    ...compare('running', is, should),
    ...compare(
      'running by queue',
      counts,
      queues.map(([queue, n]) => `${queue} ${n}`),
    ),
  ];
}

/** A task that is set aside is in three sets, and its worker is known. */
async function auditAside(
  connection: RedisConnection,
  root: string,
  own: readonly string[],
  tasks: Tasks,
): Promise<string[]> {
  const membersOf = async (key: string): Promise<string[]> =>
    ((await connection.command('zrange', root + key, 0, -1)) as readonly Buffer[]).map(String);
  const inSets = async (prefix: string): Promise<string[]> => {
    const keys = own.filter(key => key.startsWith(prefix));
    const lists = keys.map(async key => {
      const ids = await membersOf(key);
      return ids.map(id => `${id} in ${key.slice(prefix.length)}`);
    });
    return (await Promise.all(lists)).flat();
  };
  const aside = await membersOf('aside');
  const where = (of: (task: Audited) => string): string[] =>
    aside.map(id => `${id} in ${of(tasks.get(id) as Audited)}`);
  const by = (await fieldsOf(connection, `${root}aside-by`)).map(([id]) => id);
  return [
    ...compare(
      'aside by queue',
      await inSets('aside-queue:'),
      where(({ queue }) => queue),
    ),
    ...compare(
      'aside by name',
      await inSets('aside:'),
      where(({ queue, name }) => `${queue}\n${name}`),
    ),
    ...compare('aside by whom', by, aside),
  ];
}

async function auditDead(
  connection: RedisConnection,
  root: string,
  tasks: Tasks,
): Promise<string[]> {
  const is = (await connection.command('zrange', `${root}dead`, 0, -1)) as readonly Buffer[];
  const should = [...tasks].filter(([, { state }]) => state === 'x').map(([id]) => id);
  return compare('dead', is.map(String), should);
}

async function auditFailing(
  connection: RedisConnection,
  root: string,
  tasks: Tasks,
): Promise<string[]> {
  const scores = await connection.command('zrange', `${root}failing`, 0, -1, 'WITHSCORES');
  const is = pairsOf(scores as readonly Buffer[]).map(([name, n]) => `${name} ${n}`);
  const sums = new Map<string, number>();
  for (const { state, name, failures, crashes } of tasks.values()) {
    if (!['w', 'r', 'x'].includes(state)) continue;
    const count = Number(failures) + Number(crashes) || (state === 'x' ? 1 : 0);
    if (count > 0) sums.set(name, (sums.get(name) ?? 0) + count);
  }
  const should = [...sums].map(([name, n]) => `${name} ${n}`);
  return compare('failing', is, should);
}

function auditBytes(own: readonly string[], tasks: Tasks): string[] {
  const withBody = [...tasks].filter(([, { body }]) => body === 'false').map(([id]) => `b:${id}`);
  const kept = [...tasks].filter(([, task]) => Number(task.checkpointEpoch) > 0);
  const isTask = /^(w|r|x)$/;
  const isOver = ([, { state, keep }]: [string, Audited]): boolean =>
    !isTask.test(state) && keep === '0';
  return [
    ...compare(
      'bodies',
      own.filter(key => key.startsWith('b:')),
      withBody,
    ),
    ...compare(
      'checkpoints',
      own.filter(key => key.startsWith('c:')),
      kept.map(([id]) => `c:${id}`),
    ),
    ...compare(
      'ended for ever',
      [...tasks].filter(isOver).map(([id]) => id),
      [],
    ),
  ];
}

/** The driver makes an object of this reply. */
async function fieldsOf(connection: RedisConnection, key: string): Promise<[string, string][]> {
  const fields = (await connection.command('hgetall', key)) as Readonly<Record<string, Buffer>>;
  return Object.entries(fields).map(([field, value]) => [field, String(value)]);
}

function pairsOf(values: readonly Buffer[]): [string, number][] {
  const pairs: [string, number][] = [];
  for (let at = 0; at + 1 < values.length; at += 2) {
    pairs.push([String(values[at]), Number(String(values[at + 1]))]);
  }
  return pairs;
}

function countBy(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}
