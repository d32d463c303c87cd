import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { isOutlastError, type OutlastError } from '../errors/error.ts';
import { silentLogger } from '../telemetry/logger.ts';
import { maskUrl } from '../errors/mask-secrets.ts';
import { defineConfig, resolveConfig, type OutlastConfig } from './config.ts';
import { parseDatabaseUrl } from './database-url.ts';
import { OPTION_TABLE } from './option-table.ts';

function thrownBy(run: () => unknown): OutlastError {
  try {
    run();
  } catch (error) {
    if (isOutlastError(error)) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

const loose = (config: unknown): OutlastConfig => config as OutlastConfig;

describe('precedence', () => {
  it('is flag, variable, file, default', () => {
    const file = { relay: { batchSize: 1, maxRetries: 1, idleTime: '1ms' } } as const;
    const env = { OUTLAST_RELAY_BATCH_SIZE: '2', OUTLAST_RELAY_MAX_RETRIES: '2' };
    const { relay, settings } = resolveConfig(file, env, { relay: { batchSize: 3 } });
    expect(relay).toMatchObject({
      batchSize: 3,
      maxRetries: 2,
      idleTimeMs: 1,
      sendTimeoutMs: 10_000,
    });
    expect(settings['relay.batchSize']).toEqual({ value: 3, source: 'flag' });
    expect(settings['relay.maxRetries']).toEqual({ value: 2, source: 'env' });
    expect(settings['relay.idleTime']).toEqual({ value: '1ms', source: 'file' });
    expect(settings['relay.sendTimeout']).toEqual({ value: '10s', source: 'default' });
  });

  it('ignores a flag that is undefined', () => {
    const { relay } = resolveConfig(
      { relay: { batchSize: 1 } },
      {},
      { relay: { batchSize: undefined } },
    );
    expect(relay.batchSize).toBe(1);
  });

  it('records a source for every option', () => {
    const { settings } = resolveConfig();
    const keys = Object.values(OPTION_TABLE)
      .flat()
      .map(row => `${row.section}.${row.key}`);
    expect(Object.keys(settings).toSorted()).toEqual(
      [
        'admission',
        ...keys,
        'broker',
        'celery',
        'database',
        'ledger',
        'tasks',
        'traces',
        'strict',
        'excludeTasks',
        'maxPayloadBytes',
        'metrics',
        'maxMessageBytes',
        'retention',
        'schema',
        'schedule',
        'signatureMaxAge',
        'signingAudience',
        'signingKeys',
        'unsignedQueues',
      ].toSorted(),
    );
    expect(new Set(Object.values(settings).map(setting => setting.source))).toEqual(
      new Set(['default']),
    );
  });

  it('decides under which name a bad value is reported', () => {
    const badEnv = thrownBy(() => resolveConfig({}, { OUTLAST_RELAY_BATCH_SIZE: '0' }));
    expect(badEnv).toMatchObject({ option: 'OUTLAST_RELAY_BATCH_SIZE' });
    const badFlag = thrownBy(() => resolveConfig({}, {}, { relay: { batchSize: 0 } }));
    expect(badFlag).toMatchObject({ option: '--batch-size' });
    const badFile = thrownBy(() => resolveConfig({ relay: { batchSize: 0 } }));
    expect(badFile).toMatchObject({ option: 'relay.batchSize' });
  });
});

describe('a config', () => {
  it('is refused when tasks may be larger than the messages that workers accept', () => {
    const refused = thrownBy(() => resolveConfig({ maxPayloadBytes: 11, maxMessageBytes: 10 }));
    expect(refused).toMatchObject({
      code: 'ERR_OPTIONS_CONFLICT',
      options: ['maxMessageBytes', 'maxPayloadBytes'],
    });
  });

  it('has defaults for all options it leaves out', () => {
    expect(resolveConfig({}, {}, { folder: '/app' })).toMatchObject({
      database: { kind: 'pglite', folder: '/app/.outlast' },
      tasks: [],
      strict: true,
      excludeTasks: [],
      maxPayloadBytes: 1_048_576,
      maxMessageBytes: 16_777_216,
      on: {},
      log: null,
      logLevel: null,
      warnings: [],
    });
  });

  it('keeps the values it was given', () => {
    const listener = (): void => undefined;
    const config = defineConfig({
      database: 'postgres://localhost/shop',
      tasks: ['./src/handlers/*'],
      strict: false,
      excludeTasks: ['metrics.*'],
      maxPayloadBytes: 10,
      on: { 'task:done': listener },
      log: silentLogger,
    });
    expect(resolveConfig(config)).toMatchObject({
      ...config,
      database: { kind: 'postgres', url: 'postgres://localhost/shop' },
    });
  });

  it('sets how long dead letters are kept; by default none are deleted', () => {
    expect(resolveConfig().retention).toEqual({ deadLetters: null });
    const deadLetters = { olderThanDead: '30d', taskName: 'shop.*' } as const;
    expect(resolveConfig({ retention: { deadLetters } }).retention).toEqual({
      deadLetters: { olderThanDeadMs: 2_592_000_000, olderThanCreatedMs: null, taskName: 'shop.*' },
    });
    const unit = loose({ retention: { deadLetters: { olderThanDead: 30 } } });
    expect(thrownBy(() => resolveConfig(unit)).code).toBe('ERR_OPTION_UNIT');
    const unknown = loose({ retention: { deadLetter: {} } });
    expect(thrownBy(() => resolveConfig(unknown))).toMatchObject({ nearest: 'deadLetters' });
  });

  it('is checked across stages', () => {
    const error = thrownBy(() => resolveConfig({ relay: { staleTimeoutSeconds: 600 } }));
    expect(error.code).toBe('ERR_OPTIONS_CONFLICT');
  });

  it('warns in production when no database is configured', () => {
    const about = (env: Record<string, string>, file = {}): readonly string[] =>
      resolveConfig(file, env).warnings;
    const production = { NODE_ENV: 'production' };
    expect(about(production)).toEqual([expect.stringContaining('no database is named')]);
    expect(about({})).toEqual([]);
    expect(about(production, { database: 'pglite:./.outlast' })).toEqual([]);
    expect(about({ ...production, OUTLAST_DATABASE_URL: 'postgres://db/shop' })).toEqual([]);
  });

  it('collects the warnings of all stages', () => {
    const { warnings } = resolveConfig({
      relay: { maxBackoff: '1s' },
      worker: { lease: '2s', beat: '500ms' },
    });
    expect(warnings).toHaveLength(2);
  });

  it('warns of Celery events and STARTED states when there is no broker to send them to', () => {
    const worker = { celeryEvents: 'on', trackStarted: 'on' } as const;
    const about = (more: object): readonly string[] => resolveConfig({ ...more, worker }).warnings;
    expect(about({})).toHaveLength(2);
    expect(about({ broker: 'amqp://mq' })).toEqual([]);
    expect(about({ broker: 'redis://r' })).toEqual([]);
  });

  it.each([
    ['tasks', { tasks: './src/*' }],
    ['tasks', { tasks: [''] }],
    ['tasks', { tasks: null }],
    ['strict', { strict: 'yes' }],
    ['excludeTasks', { excludeTasks: [1] }],
    ['maxPayloadBytes', { maxPayloadBytes: 0 }],
    ['maxPayloadBytes', { maxPayloadBytes: '1mb' }],
    ['maxMessageBytes', { maxMessageBytes: 1.5 }],
    ['redact', { redact: 'card' }],
    ["on['task:done']", { on: { 'task:done': 'x' } }],
    ['on', { on: [] }],
    ['log', { log: () => undefined }],
    ['log', { log: { info: () => undefined } }],
    ['retention', { retention: [] }],
    ['retention.deadLetters', { retention: { deadLetters: {} } }],
    ['retention.deadLetters', { retention: { deadLetters: { taskName: 'shop.*' } } }],
    [
      'retention.deadLetters.taskName',
      { retention: { deadLetters: { olderThanDead: '1d', taskName: 5 } } },
    ],
    ['relay', { relay: null }],
    ['database', { database: 5 }],
    ['config', []],
  ])('is refused for its %s', (option, config) => {
    expect(thrownBy(() => resolveConfig(loose(config)))).toMatchObject({
      code: 'ERR_OPTION_RANGE',
      option,
    });
  });

  it('is refused for an unknown key, with the nearest known one', () => {
    expect(thrownBy(() => resolveConfig(loose({ databse: 'x' })))).toMatchObject({
      code: 'ERR_UNKNOWN_OPTION',
      nearest: 'database',
    });
    expect(thrownBy(() => resolveConfig(loose({ dashboard: {} }))).code).toBe('ERR_UNKNOWN_OPTION');
  });
});

describe('broker and ledger', () => {
  const database = 'postgres://localhost/shop';
  const messaging = (file: object, env = {}): object => {
    const { broker, ledger, settings } = resolveConfig(loose({ database, ...file }), env);
    const { broker: shownBroker, ledger: shownLedger } = settings;
    return { broker, ledger, shown: [shownBroker, shownLedger] };
  };

  it('are the database by default', () => {
    const shown = { value: 'database', source: 'default' };
    const expected = { broker: null, ledger: { kind: 'database' }, shown: [shown, shown] };
    expect(messaging({})).toEqual(expected);
    expect(messaging({}, { OUTLAST_BROKER_URL: '', OUTLAST_LEDGER_URL: '' })).toEqual(expected);
  });

  it('may be RabbitMQ and the database', () => {
    expect(messaging({ broker: 'amqp://app:hunter2@mq' })).toMatchObject({
      broker: { kind: 'rabbitmq' },
      ledger: { kind: 'database' },
      shown: [
        { value: 'amqp://app:***@mq', source: 'file' },
        { value: 'database', source: 'default' },
      ],
    });
  });

  it('are one Redis when only the broker is given, and may be two servers', () => {
    expect(messaging({ broker: 'redis://r1' })).toMatchObject({
      broker: { kind: 'redis', url: 'redis://r1' },
      ledger: { kind: 'redis', url: 'redis://r1' },
    });
    expect(messaging({ broker: 'amqp://mq', ledger: 'rediss://:hunter2@r2' })).toMatchObject({
      ledger: { kind: 'redis', url: 'rediss://:hunter2@r2' },
      shown: [{}, { value: 'rediss://:***@r2', source: 'file' }],
    });
  });

  it('acknowledge a message on begin when both are one Redis, unless ackOn is given', () => {
    const url = 'redis://r1';
    expect(messaging({ broker: url })).toMatchObject({ broker: { ackOn: 'begin' } });
    expect(messaging({ broker: { url, ackOn: 'commit' } })).toMatchObject({
      broker: {
        ackOn: 'commit',
      },
    });
    expect(messaging({ broker: url, ledger: 'redis://r2' })).toMatchObject({
      broker: {
        ackOn: 'commit',
      },
    });
  });

  it('are refused when a Redis ledger has no broker', () => {
    const refused = { code: 'ERR_CONFIG_TIER', option: 'OUTLAST_LEDGER_URL' };
    const env = { OUTLAST_LEDGER_URL: 'redis://r' };
    expect(thrownBy(() => messaging({}, env))).toMatchObject(refused);
    expect(thrownBy(() => messaging({ ledger: 'redis://r' }))).toMatchObject({ option: 'ledger' });
  });

  it('take their URLs from variables, and the rest from the file', () => {
    const file = { broker: { url: 'amqp://file', queueType: 'quorum', ackOn: 'begin' } };
    const env = { OUTLAST_BROKER_URL: 'amqp://env', OUTLAST_LEDGER_URL: 'redis://env' };
    expect(messaging(file, env)).toMatchObject({
      broker: { url: 'amqp://env', queueType: 'quorum', ackOn: 'begin' },
      ledger: { url: 'redis://env' },
      shown: [{ source: 'env' }, { source: 'env' }],
    });
  });

  it.each([
    [{ ledger: 'postgres://u:hunter2@db/x' }, {}, 'ledger'],
    [{}, { OUTLAST_LEDGER_URL: 'amqp://u:hunter2@mq' }, 'OUTLAST_LEDGER_URL'],
    [{}, { OUTLAST_BROKER_URL: 'http://u:hunter2@mq' }, 'OUTLAST_BROKER_URL'],
    [{ broker: { url: 'http://u:hunter2@mq', ackOn: 'begin' } }, {}, 'broker.url'],
  ])('are refused when their URL is of another kind: %j %j', (file, env, option) => {
    const error = thrownBy(() => resolveConfig(loose(file), env));
    expect(error).toMatchObject({ code: 'ERR_OPTION_RANGE', option });
    expect(inspect(error)).not.toContain('hunter2');
  });

  it('are required when the database is MySQL, which can only be an outbox', () => {
    const mysql = 'mysql://u:hunter2@db/crm';
    const read = (file: object): object => resolveConfig({ database: mysql, ...file });
    const alone = thrownBy(() => read({}));
    expect(alone).toMatchObject({ code: 'ERR_CONFIG_TIER', option: 'broker' });
    expect(inspect(alone)).not.toContain('hunter2');
    expect(thrownBy(() => read({ ledger: 'redis://r' }))).toMatchObject({ option: 'broker' });
    expect(thrownBy(() => read({ broker: 'amqp://mq' }))).toMatchObject({
      code: 'ERR_CONFIG_TIER',
      option: 'ledger',
    });
    expect(read({ broker: 'amqp://mq', ledger: 'redis://r' })).toMatchObject({
      database: { kind: 'mysql' },
      ledger: { kind: 'redis' },
    });
    expect(read({ broker: 'redis://r' })).toMatchObject({ ledger: { kind: 'redis' } });
    expect(read({ database: 'mariadb://db/crm', broker: 'redis://r' })).toMatchObject({
      database: { kind: 'mysql' },
    });
  });
});

describe('a store that this version does not support', () => {
  it.each([
    [{ result: 'redis://:hunter2@localhost' }, {}, 'result'],
    [{}, { OUTLAST_RESULT_URL: 'redis://:hunter2@localhost' }, 'OUTLAST_RESULT_URL'],
  ])('is refused: %j %j', (file, env, option) => {
    const error = thrownBy(() => resolveConfig(loose(file), env));
    expect(error).toMatchObject({ code: 'ERR_CONFIG_TIER', option });
    expect(error.hint).toContain('Remove');
    expect(inspect(error)).not.toContain('hunter2');
  });
});

describe('an additional outbox', () => {
  it.each(['postgres://u@db/crm', 'mysql://u@db/crm', 'mariadb://u:p@db:3307/crm'])(
    'may be %s',
    database => {
      const { outboxes } = resolveConfig({ outboxes: { crm: { database } } });
      expect(outboxes['crm']).toEqual({
        kind: database.startsWith('postgres') ? 'postgres' : 'mysql',
        url: database,
      });
    },
  );

  it('must name a database in its MySQL URL', () => {
    const outboxes = { crm: { database: 'mysql://u:hunter2@db' } };
    const error = thrownBy(() => resolveConfig({ outboxes }));
    expect(error).toMatchObject({ code: 'ERR_OPTION_RANGE', option: 'outboxes.crm.database' });
    expect(inspect(error)).not.toContain('hunter2');
  });
});

describe('a schema', () => {
  const database = 'postgres://localhost/shop';

  it('belongs to the database, from the file or from a variable that is stronger', () => {
    const ofFile = resolveConfig({ database, schema: 'outlast' });
    expect(ofFile.database).toEqual({ kind: 'postgres', url: database, schema: 'outlast' });
    expect(ofFile.settings['schema']).toEqual({ value: 'outlast', source: 'file' });
    const ofEnv = resolveConfig({ database, schema: 'outlast' }, { OUTLAST_SCHEMA: 'jobs' });
    expect(ofEnv.database).toMatchObject({ schema: 'jobs' });
    expect(resolveConfig({ database }).database).toEqual({ kind: 'postgres', url: database });
  });

  it('of an outbox is its own', () => {
    const crm = { database: 'postgres://localhost/crm', schema: 'jobs' };
    const { outboxes } = resolveConfig({
      database,
      schema: 'outlast',
      outboxes: { crm, other: { database } },
    });
    expect(outboxes).toMatchObject({ crm: { schema: 'jobs' }, other: { url: database } });
    expect(outboxes['other']).not.toHaveProperty('schema');
  });

  it.each(['', 'Jobs', 'a b', 'a"b', 'a.b', 'pg_jobs', '1st', 'x'.repeat(41), 5, null])(
    '%o is refused',
    schema => {
      const error = thrownBy(() => resolveConfig({ database, schema } as never));
      expect(error).toMatchObject({ code: 'ERR_OPTION_RANGE', option: 'schema' });
    },
  );

  it('is refused for MySQL, which has none', () => {
    const outboxes = { crm: { database: 'mysql://localhost/crm', schema: 'jobs' } };
    const error = thrownBy(() => resolveConfig({ outboxes }));
    expect(error).toMatchObject({ code: 'ERR_CONFIG_TIER', option: 'outboxes.crm.schema' });
  });
});

describe('a database URL', () => {
  const origin = { option: 'database', folder: '/app' };

  it.each([
    ['pglite:./data', '/app/data'],
    ['pglite:data', '/app/data'],
    ['pglite:../data/', '/data'],
    ['pglite:/var/data', '/var/data'],
    ['pglite:///var/data', '/var/data'],
  ])('%s is the folder %s', (url, folder) => {
    expect(parseDatabaseUrl(url, origin)).toEqual({
      kind: 'pglite',
      folder,
      url: `pglite:${folder}`,
    });
  });

  it.each([
    'postgres://localhost/shop',
    'postgresql://app:secret@db.example:5432/shop?sslmode=require',
    'postgres:///shop?host=/var/run/postgresql',
    'POSTGRES://localhost/shop',
  ])('%s is Postgres, unchanged', url => {
    expect(parseDatabaseUrl(url, origin)).toEqual({ kind: 'postgres', url });
  });

  it('is relative to the config file, or to the working directory when it comes from a variable', () => {
    const env = { OUTLAST_DATABASE_URL: 'pglite:./data' };
    expect(
      resolveConfig({ database: 'pglite:./data' }, {}, { folder: '/app' }).database,
    ).toMatchObject({
      folder: '/app/data',
    });
    const { database, settings } = resolveConfig({}, env, { folder: '/app' });
    expect(database).toMatchObject({ folder: `${process.cwd()}/data` });
    expect(settings['database']?.source).toBe('env');
  });

  it.each([
    '',
    '   ',
    'shop',
    'sqlite:./x',
    'pglite:',
    'postgres:shop',
    'postgres://u:hunter2@host:notaport/db',
  ])('%o is refused, and the hint shows what is allowed', url => {
    const error = thrownBy(() => parseDatabaseUrl(url, origin));
    expect(error).toMatchObject({ code: 'ERR_OPTION_RANGE', option: 'database' });
    expect(error.hint).toContain('pglite:./folder');
  });

  it('is refused when it is empty in the environment', () => {
    const error = thrownBy(() => resolveConfig({}, { OUTLAST_DATABASE_URL: '' }));
    expect(error).toMatchObject({ code: 'ERR_OPTION_RANGE', option: 'OUTLAST_DATABASE_URL' });
  });
});

describe('a secret', () => {
  const leaky = [
    'postgres://u:hunter2@host:notaport/db',
    'postgres://u:hun#ter2@host/db',
    'postgres://u:x/hunter2@host:notaport/db',
    'postgres://u:a@hunter2@host:notaport/db',
    'foo://u:hunter2@host/db',
    'u:hunter2@host/db',
    'postgres:u:hunter2@host',
    'host=db user=app password=hunter2',
    'foo://host/db?password=hunter2',
  ];

  it.each(leaky)('is in no message about %s', url => {
    const error = thrownBy(() => resolveConfig({}, { OUTLAST_DATABASE_URL: url }));
    const text = inspect(error, { showHidden: true, depth: 9 });
    expect(text).not.toContain('hunter2');
    expect(text).not.toContain('ter2@');
  });

  it('is masked for `config show`', () => {
    const { settings } = resolveConfig({
      database: 'postgres://app:hunter2@db/shop?sslpassword=hunter2',
    });
    expect(settings['database']).toEqual({
      value: 'postgres://app:***@db/shop?sslpassword=***',
      source: 'file',
    });
  });

  it('is the only part of a URL that is masked', () => {
    expect(maskUrl('postgres://app:p%40ss@db:5432/shop?sslmode=require')).toBe(
      'postgres://app:***@db:5432/shop?sslmode=require',
    );
    expect(maskUrl('postgres://db:5432/shop')).toBe('postgres://db:5432/shop');
    expect(maskUrl('postgres://app@db/shop')).toBe('postgres://app@db/shop');
    expect(maskUrl('pglite:/var/data')).toBe('pglite:/var/data');
  });
});

describe('the level of the log', () => {
  it('comes from the variable, else from the file', () => {
    const file = { log: { level: 'error' } } as const;
    expect(resolveConfig(file).logLevel).toBe('error');
    expect(resolveConfig(file, { OUTLAST_LOG_LEVEL: 'debug' }).logLevel).toBe('debug');
    expect(resolveConfig().logLevel).toBeNull();
  });

  it('is one of a few', () => {
    const given = { OUTLAST_LOG_LEVEL: 'loud' };
    expect(() => resolveConfig({}, given)).toThrow(/OUTLAST_LOG_LEVEL/);
    const wrong = { log: { level: 'loud' } } as unknown as OutlastConfig;
    expect(() => resolveConfig(wrong)).toThrow(/log\.level/);
  });
});
