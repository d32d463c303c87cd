// @ts-check
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * What a node knows before anybody connects. Its classic queues keep their messages on disk, as all do since RabbitMQ
 * 3.12 whatever they are told; older ones keep a backlog on the heap of the queue's process, and spend more time on
 * collecting it than on handing it out.
 */
const DEFINITIONS = {
  vhosts: [{ name: '/' }],
  users: [{ name: 'guest', password: 'guest', tags: ['administrator'] }],
  permissions: [{ user: 'guest', vhost: '/', configure: '.*', write: '.*', read: '.*' }],
  policies: [
    {
      vhost: '/',
      name: 'on-disk',
      pattern: '.*',
      'apply-to': 'queues',
      priority: 0,
      definition: { 'queue-mode': 'lazy' },
    },
  ],
};

/**
 * The environment of a private RabbitMQ node, and of the commands that speak to it.
 * @param {{ folder: string, isDurable?: boolean, port(index?: number): number, makeFolder(name: string): string }} server
 *   its ports: for clients, between nodes, and of the port mapper; `isDurable`: as those who measure speed want it
 */
export function rabbitmqEnv(server) {
  const config = join(server.folder, 'rabbitmq.conf');
  // A small disk is no reason to block publishers in a test.
  const settings = ['disk_free_limit.absolute = 50MB', 'log.console.level = warning'];
  if (server.isDurable) {
    const definitions = join(server.folder, 'definitions.json');
    writeFileSync(definitions, JSON.stringify(DEFINITIONS), { mode: 0o644 });
    settings.push(`load_definitions = ${definitions}`);
  }
  writeFileSync(config, `${settings.join('\n')}\n`, { mode: 0o644 });
  const plugins = join(server.folder, 'enabled_plugins');
  writeFileSync(plugins, '[].\n', { mode: 0o644 });
  return {
    ERL_EPMD_PORT: String(server.port(2)),
    ERL_EPMD_ADDRESS: '127.0.0.1',
    RABBITMQ_NODENAME: `outlast-${server.port()}@localhost`,
    RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
    RABBITMQ_NODE_PORT: String(server.port()),
    RABBITMQ_DIST_PORT: String(server.port(1)),
    RABBITMQ_CONF_ENV_FILE: '/dev/null',
    RABBITMQ_CONFIG_FILE: config,
    RABBITMQ_ENABLED_PLUGINS_FILE: plugins,
    RABBITMQ_MNESIA_BASE: server.makeFolder('mnesia'),
    RABBITMQ_LOG_BASE: server.makeFolder('log'),
    RABBITMQ_PID_FILE: join(server.folder, 'pid'),
    RABBITMQ_LOGS: '-',
    // Idle schedulers would spin on cores that the tests need.
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS:
      '+sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}',
  };
}
