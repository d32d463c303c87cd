// @ts-check
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * The environment of a private RabbitMQ node, and of the commands that speak to it.
 * @param {{ folder: string, port(index?: number): number, makeFolder(name: string): string }} server
 *   its ports: for clients, between nodes, and of the port mapper
 */
export function rabbitmqEnv(server) {
  const config = join(server.folder, 'rabbitmq.conf');
  // A small disk is no reason to block publishers in a test.
  writeFileSync(config, 'disk_free_limit.absolute = 50MB\nlog.console.level = warning\n', {
    mode: 0o644,
  });
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
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: '+sbwt none -kernel inet_dist_use_interface {127,0,0,1}',
  };
}
