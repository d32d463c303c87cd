import type { RedisConnection } from '../../src/adapters/redis/redis-connection.ts';
import { until } from './database.ts';

/** What a Celery worker stored of a task that has ended, as text. It stores that a task has started, too. */
export async function celeryMeta(connection: RedisConnection, id: string): Promise<string> {
  return await until(async () => {
    const value = await connection.command('get', `celery-task-meta-${id}`);
    const text = value instanceof Buffer ? value.toString() : '';
    return text !== '' && !text.includes('"status": "STARTED"') && text;
  });
}
