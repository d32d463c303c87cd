import { outlastError } from '../errors/error.ts';
import { readBroker, REDIS_SCHEMES, type BrokerTarget } from './broker-target.ts';
import { maskUrl, type OutboxTarget } from './database-url.ts';
import type { Env } from './from-env.ts';
import { rangeError } from './options.ts';

const BROKER_ENV = 'OUTLAST_BROKER_URL';
const LEDGER_ENV = 'OUTLAST_LEDGER_URL';

/** Where it is kept who runs what, and with what result. */
export type LedgerTarget =
  | { readonly kind: 'database' }
  | { readonly kind: 'redis'; readonly url: string };

/** Broker and ledger, each with where it was given. */
export interface Messaging {
  /** Null: the database. */
  readonly broker: BrokerTarget | null;
  readonly brokerSource: 'env' | 'file' | 'default';
  readonly ledger: LedgerTarget;
  readonly ledgerSource: 'env' | 'file' | 'default';
}

type Given = Readonly<Record<string, unknown>>;

/** Reads broker and ledger. A variable gives the URL; what else the file says about the broker stays. */
export function readMessaging(config: Given, env: Env, database: OutboxTarget): Messaging {
  const broker = readBrokerFrom(config, env);
  const ledger = readLedger(config, env);
  if (database.kind === 'mysql') refuseOutboxAlone(broker.target, ledger.target);
  if (broker.target === null && ledger.target !== null) throw ledgerAlone(ledger.source);
  const target = ledger.target ?? ledgerBeside(broker.target);
  return {
    broker: broker.isAckGiven ? broker.target : withOwnAck(broker.target, target),
    brokerSource: broker.source,
    ledger: target,
    ledgerSource: ledger.source,
  };
}

/** One server has both copies, and loses both or none: holding on to the broker's until the end is worth nothing. */
function withOwnAck(broker: BrokerTarget | null, ledger: LedgerTarget): BrokerTarget | null {
  const isOne = broker?.kind === 'redis' && ledger.kind === 'redis' && ledger.url === broker.url;
  return isOne ? Object.freeze({ ...broker, ackOn: 'begin' }) : broker;
}

/** The relay would put tasks where no worker looks for them. */
function ledgerAlone(source: Messaging['ledgerSource']): Error {
  const option = source === 'env' ? LEDGER_ENV : 'ledger';
  return outlastError('ERR_CONFIG_TIER', {
    message: `\`${option}\` is set, and there is no \`broker\` that brings tasks there`,
    hint: `Set ${BROKER_ENV} to redis://… or amqp://…, or remove \`${option}\`: then the database is both.`,
    fields: { option },
  });
}

const fromEnv = (env: Env, name: string): string | undefined =>
  env[name] === '' ? undefined : env[name];

function readBrokerFrom(
  config: Given,
  env: Env,
): { target: BrokerTarget | null; isAckGiven: boolean; source: Messaging['brokerSource'] } {
  const url = fromEnv(env, BROKER_ENV);
  const inFile = config['broker'];
  const isLong = typeof inFile === 'object' && inFile !== null;
  const isAckGiven = isLong && (inFile as Given)['ackOn'] !== undefined;
  if (url !== undefined) {
    const target = isLong ? readBroker({ ...inFile, url }, 'broker') : readBroker(url, BROKER_ENV);
    return { target, isAckGiven, source: 'env' };
  }
  if (inFile === undefined) return { target: null, isAckGiven, source: 'default' };
  return { target: readBroker(inFile, 'broker'), isAckGiven, source: 'file' };
}

function readLedger(
  config: Given,
  env: Env,
): { target: LedgerTarget | null; source: Messaging['ledgerSource'] } {
  const url = fromEnv(env, LEDGER_ENV);
  const given = url ?? config['ledger'];
  if (given === undefined) return { target: null, source: 'default' };
  const option = url === undefined ? 'ledger' : LEDGER_ENV;
  const hint = `Use redis://host:6379/0 or rediss://…, or remove \`${option}\`: then it is the broker if that is Redis, else the database.`;
  if (typeof given !== 'string') throw rangeError(option, 'is not a URL', hint);
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(given)?.[1]?.toLowerCase() ?? '';
  if (!REDIS_SCHEMES.has(scheme)) throw rangeError(option, `is ${maskUrl(given)}`, hint);
  return { target: { kind: 'redis', url: given }, source: url === undefined ? 'file' : 'env' };
}

/** Where nothing is said: a broker that is Redis keeps the ledger too, else the database does. */
function ledgerBeside(broker: BrokerTarget | null): LedgerTarget {
  return broker?.kind === 'redis' ? { kind: 'redis', url: broker.url } : { kind: 'database' };
}

/** MySQL and MariaDB hold an outbox and nothing else. */
function refuseOutboxAlone(broker: BrokerTarget | null, ledger: LedgerTarget | null): void {
  if (broker !== null && (broker.kind === 'redis' || ledger !== null)) return;
  throw outlastError('ERR_CONFIG_TIER', {
    message:
      broker === null
        ? 'MySQL and MariaDB are an outbox only: they need a `broker`'
        : 'MySQL and MariaDB are an outbox only: beside RabbitMQ they need a `ledger`',
    hint:
      broker === null
        ? `Set ${BROKER_ENV} to redis://…, or to amqp://… together with ${LEDGER_ENV}.`
        : `Set ${LEDGER_ENV} to redis://….`,
    fields: { option: broker === null ? 'broker' : 'ledger' },
  });
}
