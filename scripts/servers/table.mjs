// @ts-check
/**
 * The servers and programs the tests may need, one entry each: how to find it, what to install on
 * Debian, how to start a private one, and the variable that points to one that runs already.
 */
import { existsSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { findProgram } from './find-program.mjs';
import { rabbitmqEnv } from './rabbitmq-env.mjs';
import { AMQP, MYSQL, POSTGRES, REDIS } from './readiness.mjs';

/** @typedef {import('./private-server.mjs').PrivateServer} PrivateServer */

/**
 * @typedef {object} Requirement
 * @property {string} name
 * @property {readonly string[]} packages of Debian
 * @property {string} env set by hand where there is a server already, and by us for the tests
 * @property {boolean} isUsed whether tests use it today; others are installed but not started
 * @property {() => string | null} find the path of its main program
 * @property {ServerRecipe | null} server null for a program: `env` is then its path
 *
 * @typedef {object} ServerRecipe
 * @property {string | null} user who runs it when we are root; null: root may
 * @property {number} ports how many it listens on; the first is the one clients use
 * @property {(server: PrivateServer) => Promise<string>} start returns the URL
 */

/** @type {Requirement} */
const postgres = {
  name: 'postgres',
  packages: ['postgresql'],
  env: 'OUTLAST_TEST_POSTGRES_URL',
  isUsed: true,
  find: () => findProgram('postgres', ['/usr/lib/postgresql/*/bin']),
  server: {
    // It refuses to run as root.
    user: 'postgres',
    ports: 1,
    start: async server => {
      const data = server.makeFolder('data');
      // The one of the same version; the search path may hold a link to the server alone.
      const initdb = join(dirname(realpathSync(server.binary)), 'initdb');
      const account = ['--username=postgres', '--auth=trust'];
      const text = ['--encoding=UTF8', '--no-locale'];
      await server.prepare(initdb, [`--pgdata=${data}`, ...account, ...text, '--no-sync']);
      const settings = [
        'listen_addresses=127.0.0.1',
        `port=${server.port()}`,
        `unix_socket_directories=${server.makeFolder('socket')}`,
        'max_connections=300',
        'shared_buffers=256MB',
        // No test pulls the plug of the machine, and killing a server process loses nothing that
        // the kernel has. What commits promise to other sessions stays as it is.
        ...(server.isDurable ? [] : ['fsync=off', 'full_page_writes=off']),
      ];
      const args = ['-D', data, ...settings.flatMap(setting => ['-c', setting])];
      // SIGINT is its fast shutdown: sessions are ended, not waited for.
      const child = await server.spawn(server.binary, args, { stopSignal: 'SIGINT' });
      await server.ready(child, POSTGRES);
      return `postgres://postgres@127.0.0.1:${server.port()}/postgres`;
    },
  },
};

/** For tests that kill a PostgreSQL of their own, and promote its standby. @type {Requirement} */
const postgresServer = {
  name: 'postgres-server',
  packages: ['postgresql'],
  env: 'OUTLAST_TEST_POSTGRES_SERVER',
  isUsed: true,
  find: postgres.find,
  server: null,
};

/** @type {Requirement} */
const mariadb = {
  name: 'mariadb',
  packages: ['mariadb-server'],
  env: 'OUTLAST_TEST_MARIADB_URL',
  isUsed: true,
  find: () => findProgram('mariadbd', ['/usr/sbin']),
  server: {
    user: 'mysql',
    ports: 1,
    start: async server => {
      const data = server.makeFolder('data');
      const where = ['--no-defaults', `--datadir=${data}`];
      // This makes root without a password, and a database named test.
      await server.prepare(findProgram('mariadb-install-db', []) ?? 'mariadb-install-db', [
        ...where,
        '--auth-root-authentication-method=normal',
      ]);
      const child = await server.spawn(server.binary, [
        ...where,
        '--bind-address=127.0.0.1',
        `--port=${server.port()}`,
        `--socket=${join(server.makeFolder('socket'), 'socket')}`,
        `--pid-file=${join(server.folder, 'pid')}`,
        // Accounts are matched by address; asking a name service could take seconds.
        '--skip-name-resolve',
        `--innodb-flush-log-at-trx-commit=${server.isDurable ? 1 : 2}`,
      ]);
      await server.ready(child, MYSQL);
      return `mysql://root@127.0.0.1:${server.port()}/test`;
    },
  },
};

/** @type {Requirement} */
const redis = {
  name: 'redis',
  packages: ['redis-server'],
  env: 'OUTLAST_TEST_REDIS_URL',
  isUsed: true,
  find: () => findProgram('redis-server', []),
  server: {
    user: null,
    ports: 1,
    start: async server => {
      const where = [
        '--port',
        String(server.port()),
        '--bind',
        '127.0.0.1',
        '--dir',
        server.folder,
      ];
      // Always: an answered command is on the disk, as a committed row is.
      const log = server.isDurable
        ? ['--appendonly', 'yes', '--appendfsync', 'always']
        : ['--appendonly', 'no'];
      const child = await server.spawn(server.binary, [
        ...where,
        '--save',
        '',
        '--daemonize',
        'no',
        ...log,
      ]);
      await server.ready(child, REDIS);
      return `redis://127.0.0.1:${server.port()}/0`;
    },
  },
};

/** For tests that restart, fill or fail over a Redis of their own. @type {Requirement} */
const redisServer = {
  name: 'redis-server',
  packages: ['redis-server', 'redis-tools'],
  env: 'OUTLAST_TEST_REDIS_SERVER',
  isUsed: true,
  find: () => findProgram('redis-server', []),
  server: null,
};

/** @type {Requirement} */
const rabbitmq = {
  name: 'rabbitmq',
  packages: ['rabbitmq-server'],
  env: 'OUTLAST_TEST_RABBITMQ_URL',
  isUsed: true,
  // Debian's /usr/sbin/rabbitmq-server is a wrapper that insists on root and on the system's folders.
  find: () => findProgram('rabbitmq-server', ['/usr/lib/rabbitmq/bin'], { isPathLast: true }),
  server: {
    user: 'rabbitmq',
    // For clients, between nodes, and of the port mapper.
    ports: 3,
    start: async server => {
      // Erlang would start a port mapper that outlives the node; ours goes with the run.
      await server.spawn('epmd', ['-port', String(server.port(2)), '-address', '127.0.0.1']);
      const child = await server.spawn(server.binary, [], { env: rabbitmqEnv(server) });
      await server.ready(child, AMQP);
      return `amqp://guest:guest@127.0.0.1:${server.port()}/`;
    },
  },
};

/** For tests that kill a RabbitMQ of their own, or have it raise an alarm. @type {Requirement} */
const rabbitmqServer = {
  name: 'rabbitmq-server',
  packages: ['rabbitmq-server'],
  env: 'OUTLAST_TEST_RABBITMQ_SERVER',
  isUsed: true,
  find: rabbitmq.find,
  server: null,
};

/** @type {Requirement} */
const chromium = {
  name: 'chromium',
  packages: ['chromium'],
  env: 'OUTLAST_TEST_CHROMIUM',
  isUsed: true,
  find: () => findProgram('chromium', []) ?? findProgram('google-chrome', []),
  server: null,
};

/** A Python that has Celery: Debian's own, whatever else is in the search path. @type {Requirement} */
const celery = {
  name: 'celery',
  packages: ['python3-celery', 'python3-redis'],
  env: 'OUTLAST_TEST_CELERY_PYTHON',
  isUsed: true,
  find: () =>
    ['celery', 'redis'].every(name => existsSync(`/usr/lib/python3/dist-packages/${name}`))
      ? findProgram('python3', ['/usr/bin'], { isPathLast: true })
      : null,
  server: null,
};

/** For tests that put a pooler of their own before the PostgreSQL of the run. @type {Requirement} */
const pgbouncer = {
  name: 'pgbouncer',
  packages: ['pgbouncer'],
  env: 'OUTLAST_TEST_PGBOUNCER',
  isUsed: true,
  find: () => findProgram('pgbouncer', ['/usr/sbin']),
  server: null,
};

/** Checks what is served to Prometheus, and its alert rules. @type {Requirement} */
const promtool = {
  name: 'promtool',
  packages: ['prometheus'],
  env: 'OUTLAST_TEST_PROMTOOL',
  isUsed: true,
  find: () => findProgram('promtool', ['/usr/bin']),
  server: null,
};

/** @type {readonly Requirement[]} */
export const REQUIREMENTS = [
  postgres,
  postgresServer,
  mariadb,
  redis,
  redisServer,
  rabbitmq,
  rabbitmqServer,
  celery,
  pgbouncer,
  promtool,
  chromium,
];
