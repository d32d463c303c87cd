import { expect, it } from 'vitest';
import { digestOf } from '../task/digest.ts';
import type { Envelope } from '../task/envelope.ts';
import { toBytes } from '../task/json.ts';
import { NO_KEYS } from '../task/keyring.ts';
import { readOptions } from '../task/read-options.ts';
import { decodeMessage } from '../wire/decode-message.ts';
import { encodeMessage } from '../wire/encode-message.ts';
import { afterDone } from './follow-up.ts';

const deps = {
  nowMs: 1_000_000,
  queueOf: () => null,
  redact: null,
  keyring: NO_KEYS,
  answers: false,
};

/** A step as Celery 5.3 and later write it: it names its stamps, and has each as an option. */
const step = (options: object): string =>
  JSON.stringify({ task: 'py.b', args: [], kwargs: {}, options, immutable: false });

function made(embed: string): Envelope {
  const body = toBytes(`[[],{},${embed}]`);
  const named = { id: 'first', name: 'py.a', version: 1, body };
  const rest = { queue: 'celery', priority: 0, etaMs: null, expiresMs: null };
  return { ...named, ...rest, options: toBytes('{}'), digest: digestOf(named) };
}

it('hands the stamps of a signature on in the headers where Celery reads them', () => {
  const stamped = step({ stamped_headers: ['tenant', 'gone'], tenant: ['x', 7], other: 'y' });
  const embed = `{"callbacks":[${stamped},${step({})}],"errbacks":null,"chain":[${stamped}],"chord":null}`;
  const sent = afterDone(made(embed), '1', deps).flatMap(entry =>
    'publish' in entry ? [encodeMessage(entry.publish, 'gen1@host')] : [],
  );
  expect(sent.map(({ headers }) => [headers['stamped_headers'], headers['stamps']])).toEqual([
    [['tenant'], { tenant: ['x', 7] }],
    [undefined, undefined],
    [['tenant'], { tenant: ['x', 7] }],
  ]);
});

it('reads the stamps of a message, and gives them back with it', () => {
  const headers = { lang: 'py', task: 'py.a', id: 'a' };
  const read = (more: object): unknown => {
    const message = decodeMessage({
      headers: { ...headers, ...more },
      properties: { contentType: 'application/json' },
      body: toBytes('[[],{},null]'),
      queue: 'celery',
    });
    if ('raw' in message) throw new Error(message.why);
    return readOptions(message).stamps;
  };
  const stamps = { tenant: 'x', parts: ['a', 'b'], count: 3, 'of-none': null };
  expect(read({ stamped_headers: Object.keys(stamps), stamps })).toEqual(stamps);
  // What is not named is no stamp; a message without any has empty ones.
  expect(read({ stamped_headers: ['a', 'b'], stamps: { a: 1, c: 2 } })).toEqual({ a: 1 });
  for (const none of [
    {},
    { stamped_headers: [], stamps: {} },
    { stamped_headers: null, stamps: {} },
  ])
    expect(read({ ...none, replaced_task_nesting: 0 })).toBeUndefined();
});
