import { outlastError } from '../errors/error.ts';
import { maskUrl } from '../errors/mask-secrets.ts';
import { envIn } from '../options/option.ts';
import { TOP_LEVEL_TABLE } from '../options/top-level-table.ts';
import { readBroker, REDIS_SCHEMES, type BrokerTarget } from './broker-target.ts';
import type { OutboxTarget } from './database-target.ts';
import { dialectRow } from './database-url.ts';
import type { Env } from './from-env.ts';
import { rangeError } from './options.ts';

const BROKER_ENV = envIn(TOP_LEVEL_TABLE, 'broker');
const LEDGER_ENV = envIn(TOP_LEVEL_TABLE, 'ledger');

/** The store that records which worker runs which task, and its result. */
export type LedgerTarget =
  | { readonly kind: 'database' }
  | { readonly kind: 'redis'; readonly url: string };

/** Broker and ledger, each with its source. */
export interface Messaging {
  /** Null: the database. */
  readonly broker: BrokerTarget | null;
  readonly brokerSource: 'env' | 'file' | 'default';
  readonly ledger: LedgerTarget;
  readonly ledgerSource: 'env' | 'file' | 'default';
}

type Given = Readonly<Record<string, unknown>>;

/** Reads broker and ledger. A variable sets the URL; the other broker options of the file stay. */
export function readMessaging(config: Given, env: Env, database: OutboxTarget): Messaging {
  const broker = readBrokerFrom(config, env);
  const ledger = readLedger(config, env);
  const { canBeLedger, title } = dialectRow(database);
  if (!canBeLedger) refuseOutboxAlone(title, broker.target, ledger.target);
  if (broker.target === null && ledger.target !== null) throw ledgerAlone(ledger.source);
  const target = ledger.target ?? ledgerBeside(broker.target);
  return {
    broker: broker.isAckGiven ? broker.target : withOwnAck(broker.target, target),
    brokerSource: broker.source,
    ledger: target,
    ledgerSource: ledger.source,
  };
}

/** One server has both copies, and loses both or none: holding the broker's copy until the end gains nothing. */
function withOwnAck(broker: BrokerTarget | null, ledger: LedgerTarget): BrokerTarget | null {
  const isOne = broker?.kind === 'redis' && ledger.kind === 'redis' && ledger.url === broker.url;
  return isOne ? Object.freeze({ ...broker, ackOn: 'begin' }) : broker;
}

/** The relay would send tasks to a broker that no worker consumes. */
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

/** The default: a Redis broker also has the ledger, else the database does. */
function ledgerBeside(broker: BrokerTarget | null): LedgerTarget {
  return broker?.kind === 'redis' ? { kind: 'redis', url: broker.url } : { kind: 'database' };
}

/** For a database that holds an outbox and nothing else. */
function refuseOutboxAlone(
  title: string,
  broker: BrokerTarget | null,
  ledger: LedgerTarget | null,
): void {
  if (broker !== null && (broker.kind === 'redis' || ledger !== null)) return;
  throw outlastError('ERR_CONFIG_TIER', {
    message:
      broker === null
        ? `\`database\` is ${title}, which is an outbox only: it needs a \`broker\``
        : `\`database\` is ${title}, which is an outbox only: beside RabbitMQ it needs a \`ledger\``,
    hint:
      broker === null
        ? `Set ${BROKER_ENV} to redis://…, or to amqp://… together with ${LEDGER_ENV}.`
        : `Set ${LEDGER_ENV} to redis://….`,
    fields: { option: broker === null ? 'broker' : 'ledger' },
  });
}
