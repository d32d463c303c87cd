// @ts-check
/** The figures that can be measured, and the servers each of them needs. Read before anything is installed. */

/**
 * Each has a module of its name in `figures/`, loaded when what it compares with is installed.
 * @typedef {{ isQuick: boolean, log: (line: string) => void }} Plan
 * @type {Readonly<Record<string, { servers: readonly string[] }>>}
 */
export const FIGURES = {
  enqueue: { servers: ['postgres'] },
  relay: { servers: ['postgres', 'rabbitmq', 'redis'] },
  latency: { servers: ['postgres', 'rabbitmq', 'redis'] },
  poison: { servers: ['postgres', 'rabbitmq'] },
  backlog: { servers: ['postgres', 'rabbitmq'] },
  worker: { servers: ['postgres', 'rabbitmq', 'redis', 'celery'] },
  'one-postgres': { servers: ['postgres'] },
  growth: { servers: ['postgres'] },
  dispatch: { servers: ['postgres', 'rabbitmq', 'redis'] },
  recovery: { servers: ['postgres', 'rabbitmq', 'redis'] },
  'celery-recovery': { servers: ['postgres', 'rabbitmq', 'redis', 'celery'] },
};

const USAGE = `npm run bench -- [--only ${Object.keys(FIGURES).join(',')}] [--quick] [--json]`;

/** What was asked for is not there; the message says what is. */
export class UsageError extends Error {}

/** @param {readonly string[]} args */
export function readArguments(args) {
  let names = Object.keys(FIGURES);
  let isQuick = false;
  let isJson = false;
  for (let at = 0; at < args.length; at++) {
    const arg = args[at];
    if (arg === '--quick') isQuick = true;
    else if (arg === '--json') isJson = true;
    else if (arg === '--only') names = (args[++at] ?? '').split(',');
    else throw new UsageError(`unknown argument ${arg}\n${USAGE}`);
  }
  const unknown = names.filter(name => !(name in FIGURES));
  if (unknown.length > 0) throw new UsageError(`no figure named ${unknown.join(', ')}\n${USAGE}`);
  return { names, isQuick, isJson };
}
