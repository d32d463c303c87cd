import { describe, expect, it } from 'vitest';
import { bodyOf, celeryMessage } from '../../test/support/celery-vectors.ts';
import { digestOf } from '../task/digest.ts';
import type { Envelope, EnvelopeOptions } from '../task/envelope.ts';
import { toBytes } from '../task/json.ts';
import { encodeMessage } from './encode-message.ts';
import type { WireMessage } from './message.ts';

interface Making extends Partial<Omit<Envelope, 'options'>> {
  readonly options?: EnvelopeOptions;
}

function make({ options = {}, ...fields }: Making = {}): Envelope {
  const made = {
    id: 'id-1',
    name: 'interop.add',
    queue: 'celery',
    priority: 0,
    version: 1,
    body: toBytes('[[2, 3], {}, {"callbacks": null}]'),
    etaMs: null,
    expiresMs: null,
    ...fields,
  };
  return { ...made, options: toBytes(JSON.stringify(options)), digest: digestOf(made) };
}

const encode = (making: Making = {}): WireMessage => encodeMessage(make(making), 'gen1@host');
/** Headers that differ by intent: language of the sender, and how arguments are shown. */
const anyText: unknown = expect.any(String);
const VARYING = { lang: 'js', argsrepr: anyText, kwargsrepr: anyText };

describe('an envelope as a message', () => {
  it('has the headers that Python gave to a step as the values they were', () => {
    const texts = {
      n: '-300',
      deep: '{"a": [1.5, null, true]}',
      big: '18446744073709551616',
      text: '7',
    };
    const { headers } = encode({ options: { headers: texts, jsonHeaders: ['n', 'deep', 'big'] } });
    const values = { ...texts, n: -300, deep: { a: [1.5, null, true] } };
    expect(headers).toMatchObject({ ...values, headers: values });
  });

  it.each<[string, Making]>([
    ['plain', {}],
    ['kwargs', { name: 'interop.echo' }],
    ['eta-utc-no-microseconds', { etaMs: Date.UTC(2030, 0, 2, 3, 4, 5) }],
    ['priority-5', { priority: 5 }],
    ['time-limits', { options: { timeoutMs: 20_000, softTimeoutMs: 10_000 } }],
    ['shadow', { options: { shadow: 'pretty.name' } }],
    ['ignore-result', { options: { keepResult: false } }],
    [
      'root-parent-group-ids',
      {
        options: {
          rootId: '00000000-0000-4000-8000-00000000000a',
          parentId: '00000000-0000-4000-8000-00000000000b',
          groupId: '00000000-0000-4000-8000-00000000000c',
          groupIndex: 3,
        },
      },
    ],
  ])('equals the message of Celery for the same call: %s', (name, making) => {
    const vector = celeryMessage(name);
    const body = bodyOf(vector);
    const message = encode({ ...making, id: vector.headers['id'] as string, body });
    const expected = { ...vector.headers, ...VARYING };
    const { eta } = vector.headers;
    // Python leaves out a fraction that is zero, and reads it either way.
    if (typeof eta === 'string') Object.assign(expected, { eta: eta.replace('+', '.000000+') });
    expect(message.headers).toMatchObject(expected);
    expect(message.properties).toEqual({
      contentType: vector.properties['content_type'],
      contentEncoding: vector.properties['content_encoding'],
      priority: vector.properties['priority'],
      correlationId: vector.properties['correlation_id'],
    });
    expect(message.body).toBe(body);
  });

  it('adds only the headers of Outlast', () => {
    const names = Object.keys(encode().headers);
    const theirs = Object.keys(celeryMessage('plain').headers);
    expect(names.filter(name => !theirs.includes(name))).toEqual([
      'outlast-schema',
      'outlast-digest',
    ]);
  });

  it('has deadline, idempotency key and version', () => {
    const options = { deadlineMs: Date.UTC(2030, 0, 2), idempotencyKey: 'order-17' };
    expect(encode({ version: 3, options }).headers).toMatchObject({
      'outlast-schema': 3,
      'outlast-idempotency-key': 'order-17',
      deadline: '2030-01-02T00:00:00.000000+00:00',
    });
  });

  it('has the reply address and correlation id of its options', () => {
    const options = { replyTo: 'answers', correlationId: 'c-1' };
    expect(encode({ options }).properties).toMatchObject(options);
  });
});

describe('headers of the user', () => {
  it('are sent at both levels, and overwrite no other header', () => {
    const headers = { traceparent: '00-1', task: 'mine', 'outlast-digest': 'x', hostname: 'h' };
    const message = encode({ options: { headers } });
    expect(message.headers).toMatchObject({
      traceparent: '00-1',
      task: 'interop.add',
      headers,
    });
    expect(message.headers['outlast-digest']).toHaveLength(64);
    expect(message.headers).not.toHaveProperty('hostname');
  });

  it('are refused when no broker would accept them', () => {
    const headers = { big: 'x'.repeat(24_577) };
    expect(() => encode({ options: { headers } })).toThrow('larger than 24576');
    const proto = JSON.parse('{"__proto__":"x"}') as Record<string, string>;
    expect(() => encode({ options: { headers: proto } })).toThrow('__proto__');
  });
});

describe('the shown arguments', () => {
  const shown = (body: string): unknown[] => {
    const { headers } = encode({ body: toBytes(body) });
    return [headers['argsrepr'], headers['kwargsrepr']];
  };

  it('are copied from the body without change', () => {
    expect(shown('[["a]\\"b", {"c": [1]}], {"d": "}"}, {}]')).toEqual([
      '["a]\\"b", {"c": [1]}]',
      '{"d": "}"}',
    ]);
    expect(shown('[[9007199254740993],{},{}]')).toEqual(['[9007199254740993]', '{}']);
  });

  it('are short, however long the body is', () => {
    const [args, kwargs] = shown(`[["${'é'.repeat(500_000)}"],{"secret":1},{}]`) as [
      string,
      string,
    ];
    expect(args).toMatch(/^\["é{1022}\.\.\.$/);
    expect(kwargs).toBe('...');
    expect(shown(`[[1],{"a":"${'x'.repeat(2_000)}"},{}]`)[1]).toHaveLength(1_027);
  });

  it('are replaced by the redacted copy', () => {
    const redacted = { args: '[]', kwargs: '{"card":"***"}' };
    const { headers } = encode({ options: { redacted } });
    expect(headers).toMatchObject({ argsrepr: '[]', kwargsrepr: '{"card":"***"}' });
  });

  it.each(['', '{}', '[', '["', '[[1]', '\u0000'])(
    'do not fail the encoding of a malformed body: %j',
    body => {
      expect(shown(body).every(text => typeof text === 'string')).toBe(true);
    },
  );
});
