import { expect, it } from 'vitest';
import { toBytes } from '../task/json.ts';
import { decodeMessage } from '../wire/decode-message.ts';
import { encodeMessage } from '../wire/encode-message.ts';
import { makeEnvelope } from '../../test/conformance/envelopes.ts';
import { withPath } from '../task/path.ts';
import { lifeLine } from './life-line.ts';

const at = (ms: number): string => new Date(1_700_000_000_000 + ms).toISOString();
const hex = (1_700_000_000_000).toString(16).padStart(12, '0');
const id = `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000000`;
const history = [
  { at: at(31), step: 'begun', epoch: 1, worker: 'w1' },
  {
    at: at(40),
    step: 'failed',
    epoch: 1,
    worker: 'w1',
    error: { type: 'E', message: 'no', traceback: '' },
  },
  { at: at(1_040), step: 'begun', epoch: 2, worker: 'w2' },
  { at: at(1_045), step: 'done', epoch: 2, worker: 'w2' },
];

it('has every moment from the send to the end, with the gap to the one before and the worker of each run', () => {
  const sent = makeEnvelope({ id });
  const { headers, properties, body } = encodeMessage(
    withPath(sent, 1_700_000_000_010, 1_700_000_000_014),
    'gen1@host',
  );
  const came = decodeMessage({ headers, properties, body, queue: sent.queue });
  if ('raw' in came) throw new Error(came.why);
  const life = lifeLine({
    id,
    createdAt: at(31),
    options: came.options,
    history,
    isReceived: true,
  });
  expect(life.map(({ step, gapMs, run, worker }) => [step, gapMs, run, worker])).toEqual([
    ['enqueued', null, null, null],
    ['claimed', 10, null, null],
    ['published', 4, null, null],
    ['received', 17, null, null],
    ['begun', 0, 1, 'w1'],
    ['failed', 9, 1, 'w1'],
    ['begun', 1_000, 2, 'w2'],
    ['done', 5, 2, 'w2'],
  ]);
  expect(life.find(({ step }) => step === 'failed')?.why).toBe('E: no');
});

it.each(['', '1.2', '9999999999999.NaN', 'x'.repeat(100_000), '1700000000010.1700000000014\u0000'])(
  'leaves out a path that no relay has written',
  path => {
    const { headers, properties, body } = encodeMessage(makeEnvelope({ id }), 'gen1@host');
    const queue = 'q';
    const came = decodeMessage({
      headers: { ...headers, 'outlast-path': path },
      properties,
      body,
      queue,
    });
    const options = 'raw' in came ? toBytes('{}') : came.options;
    const life = lifeLine({ id, createdAt: at(31), options, history, isReceived: true });
    expect(life.map(({ step }) => step).slice(0, 2)).toEqual(['enqueued', 'received']);
  },
);

it('shows the first and the latest moments of a task that has failed for years', () => {
  const long = Array.from({ length: 5_000 }, () => history[0] as (typeof history)[number]);
  const life = lifeLine({
    id,
    createdAt: at(0),
    options: toBytes('{}'),
    history: long,
    isReceived: false,
  });
  expect(life).toHaveLength(500);
  expect(life[0]?.step).toBe('enqueued');
});
