import { outlastError } from '../errors/error.ts';
import { safeName } from '../task/names.ts';
import type { OutboxTarget } from './database-target.ts';
import { inSchema, isEmbedded, parseDatabaseUrl } from './database-url.ts';
import { asRecord, dropUndefined, rangeError, refuseUnknown } from './options.ts';
import { nearest } from '../options/nearest.ts';

/** Reads the outboxes in separate databases. */
export function readOutboxes(
  value: unknown,
  folder: string,
): Readonly<Record<string, OutboxTarget>> {
  const given = value === undefined ? {} : asRecord(value, 'outboxes');
  const read = Object.entries(given).map(([name, entry]) => {
    const option = `outboxes.${safeName(name, 'outbox')}`;
    const fields = dropUndefined(asRecord(entry, option));
    refuseUnknown(Object.keys(fields), ['database', 'schema'], key => `${option}.${key}`);
    const target = parseDatabaseUrl(fields['database'], { option: `${option}.database`, folder });
    if (isEmbedded(target)) throw embedded(option);
    return [name, inSchema(target, fields['schema'], `${option}.schema`)] as const;
  });
  return Object.freeze(Object.fromEntries(read));
}

/** The database of a named outbox. */
export function findOutbox(
  outboxes: Readonly<Record<string, OutboxTarget>>,
  name: string,
): OutboxTarget {
  const target = Object.hasOwn(outboxes, name) ? outboxes[name] : undefined;
  if (target) return target;
  const close = nearest(name, Object.keys(outboxes));
  const known = Object.keys(outboxes).join(', ') || 'none';
  throw rangeError(
    'outbox',
    `is ${JSON.stringify(name)}`,
    close === null ? `The configuration names: ${known}.` : `Did you mean ${close}?`,
  );
}

function embedded(option: string): Error {
  return outlastError('ERR_CONFIG_TIER', {
    message: `\`${option}\` is an embedded database, which one process has for itself`,
    hint: 'Use postgres:// or mysql:// for an outbox of its own.',
    fields: { option },
  });
}
