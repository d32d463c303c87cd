import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PoolConnection } from 'mysql2/promise';
import { fromMysql2 } from '../../dist/adapters/transactions/mysql2.js';
import { createOutlast, startRelay, task, unchecked, type Outlast } from '../../dist/index.js';
import { unique } from '../conformance/envelopes.ts';
import { CliProject, json, type JsonError } from '../support/cli-project.ts';
import { migratedMariadb, until, type MigratedMariadb } from '../support/database.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { rabbitmqUrl } from '../support/servers.ts';

/** Never contacted: a process that only sends and relays needs no ledger. */
const LEDGER = 'redis://127.0.0.1:1/0';

let database: MigratedMariadb;
let rabbit: RabbitInspector;
let outlast: Outlast<PoolConnection>;

beforeAll(async () => {
  database = await migratedMariadb('rabbitmq');
  rabbit = await RabbitInspector.connect();
  outlast = createOutlast({
    database: database.url,
    broker: rabbitmqUrl(),
    ledger: LEDGER,
    adapter: fromMysql2(database.pool),
  });
});

afterAll(async () => {
  await outlast.close();
  await rabbit.close();
  await database.dispose();
});

describe('MariaDB as the database, with a broker beside it', () => {
  it('sends and relays: committed tasks arrive, rolled-back ones never do', async () => {
    const queue = unique('queue');
    const echo = task(unique('echo'), { queue, input: unchecked<unknown>() });
    const gone = outlast.transaction(async tx => {
      await outlast.send(tx, echo, 'gone');
      throw new Error('rolled back');
    });
    await expect(gone).rejects.toThrow('rolled back');
    const sent = await outlast.transaction(tx => outlast.send(tx, echo, { text: 'ü😀' }));
    const relay = await startRelay(outlast);
    const { properties, content } = await until(() => rabbit.peek(queue));
    expect(properties.headers).toMatchObject({ task: echo.name, id: sent.id });
    expect(JSON.parse(content.toString())).toEqual([[], { text: 'ü😀' }, expect.any(Object)]);
    const left = async (): Promise<number> =>
      ((await database.pool.query('select id from outlast_outbox'))[0] as unknown[]).length;
    await until(async () => (await left()) === 0);
    await relay.stop();
    expect(await rabbit.depth(queue)).toBe(1);
  });

  it('sends and relays while the ledger is unreachable', async () => {
    const env = {
      OUTLAST_DATABASE_URL: database.url,
      OUTLAST_BROKER_URL: rabbitmqUrl(),
      OUTLAST_LEDGER_URL: LEDGER,
    };
    const project = new CliProject({}, env);
    try {
      const queue = unique('queue');
      const sent = await project.run('send', 'mysql.cli', '--queue', queue);
      expect(sent).toMatchObject({ code: 0 });
      expect(await project.run('relay', '--drain')).toMatchObject({ code: 0, stdout: 'moved 1\n' });
      expect(await rabbit.depth(queue)).toBe(1);
      const stats = await project.run('stats', '--json');
      expect(stats.code).toBe(5);
      expect(json<JsonError>(stats.stderr).error.code).toBe('ERR_STORE_UNAVAILABLE');
    } finally {
      await project.dispose();
    }
  });
});
