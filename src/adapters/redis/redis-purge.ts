import type { PurgeReply, PurgeRequest } from '../../outbox/outbox-store.ts';
import { globPattern } from '../../task/glob.ts';
import { LUA } from './lua.generated.ts';
import type { RedisConnection } from './redis-connection.ts';
import { walkDead, type DeadTask } from './redis-dead.ts';
import { withIsolation } from './redis-isolate.ts';
import { pack } from './redis-pack.ts';

const CHUNK = 500;

/**
 * Ends matching dead tasks, oldest death first. Finding and ending them are two steps; the second names the death, so a
 * task that was revived in between, or died again, is left alone.
 */
export async function purgeDead(
  connection: RedisConnection,
  roots: readonly string[],
  request: PurgeRequest,
): Promise<PurgeReply> {
  const found = (await Promise.all(roots.map(root => findDead(connection, root, request)))).flat();
  found.sort((a, b) => a.record.endedMs - b.record.endedMs || (a.id < b.id ? -1 : 1));
  if (request.isDryRun) return countByName(found);
  const oldest = found.slice(0, request.limit);
  const ended = await Promise.all(
    roots.map(root =>
      endAll(
        connection,
        root,
        oldest.filter(task => task.root === root),
      ),
    ),
  );
  return countByName(ended.flat());
}

async function findDead(
  connection: RedisConnection,
  root: string,
  { olderThanDeadMs, olderThanCreatedMs, taskName, limit, isDryRun }: PurgeRequest,
): Promise<DeadTask[]> {
  const nowMs = (await connection.script(LUA.ledgerNow, [root], [])) as number;
  const beforeMs = olderThanDeadMs === null ? null : nowMs - olderThanDeadMs;
  const pattern = globPattern(taskName ?? '*');
  const found: DeadTask[] = [];
  for await (const task of walkDead(connection, root, {
    order: 'oldest',
    fromMs: null,
    beforeMs,
  })) {
    const { name, createdMs } = task.record;
    const isOld = olderThanCreatedMs === null || createdMs < nowMs - olderThanCreatedMs;
    if (isOld && pattern.test(name)) found.push(task);
    if (!isDryRun && found.length === limit) break;
  }
  return found;
}

async function endAll(
  connection: RedisConnection,
  root: string,
  tasks: readonly DeadTask[],
): Promise<DeadTask[]> {
  const ended: DeadTask[] = [];
  for (let at = 0; at < tasks.length; at += CHUNK) {
    const some = tasks.slice(at, at + CHUNK);
    const items = pack(some.map(({ id, record }) => [id, record.deaths]));
    const scope = { ids: some.map(({ id }) => id) };
    const step = (): Promise<unknown> => connection.script(LUA.ledgerPurge, [root], [items]);
    const statuses = await withIsolation(connection, root, scope, step);
    ended.push(...some.filter((_, index) => (statuses as readonly number[])[index] === 1));
  }
  return ended;
}

function countByName(tasks: readonly DeadTask[]): PurgeReply {
  const counts = new Map<string, number>();
  for (const { record } of tasks) counts.set(record.name, (counts.get(record.name) ?? 0) + 1);
  const sorted = [...counts].map(([name, count]) => ({ name, count }));
  return { counts: sorted.sort((a, b) => (a.name < b.name ? -1 : 1)) };
}
