import { describe, expect, it } from 'vitest';
import type { Envelope } from '../task/envelope.ts';
import { encodeJson, toBytes } from '../task/json.ts';
import { readOptions } from '../task/read-options.ts';
import { decodeMessage } from './decode-message.ts';
import { encodeMessage } from './encode-message.ts';
import { keepHeaders } from './headers.ts';

const PYTHON = {
  lang: 'py',
  task: 'billing.charge',
  id: 'task-1',
  shadow: null,
  eta: '2030-01-01T00:00:00.123456+00:00',
  expires: null,
  group: null,
  group_index: null,
  retries: 3,
  timelimit: [null, 2.5],
  root_id: 'root',
  parent_id: null,
  argsrepr: "('4111',)",
  kwargsrepr: '{}',
  origin: 'gen7@python',
  ignore_result: true,
  replaced_task_nesting: 2,
  stamped_headers: ['region'],
  stamps: { region: ['eu'] },
  'x-request-id': 17,
};
const properties = { contentType: 'application/json', contentEncoding: 'utf-8' };

function received(headers: object): Envelope {
  const body = toBytes('[["4111"],{},{}]');
  const message = decodeMessage({ headers, properties, body, queue: 'shared' });
  if ('raw' in message) throw new Error(message.why);
  return message;
}

function requeued(message: Envelope, more: object = {}): Readonly<Record<string, unknown>> {
  const envelope = {
    ...message,
    options: toBytes(encodeJson({ ...readOptions(message), ...more })),
  };
  return encodeMessage(keepHeaders(envelope, message), 'gen1@ours').headers;
}

describe('a message that goes back to its broker', () => {
  it('has every header that it arrived with, and the list of workers that refused it', () => {
    expect(requeued(received(PYTHON))).toEqual(PYTHON);
    const refused = { times: 1, waitedMs: 1_000, by: ['host:1'] };
    const again = requeued(received(PYTHON), { refused });
    expect(again).toEqual({ ...PYTHON, 'outlast-refused': JSON.stringify(refused) });
    expect(readOptions(received(again))).toMatchObject({ refused });
  });

  it('has no header that a broker acts on', () => {
    const acted = { CC: ['elsewhere'], BCC: ['elsewhere'], 'x-death': [{ count: 9 }] };
    expect(requeued(received({ ...PYTHON, ...acted }))).toEqual(PYTHON);
  });

  it('shows only redacted arguments', () => {
    const redacted = { args: '["****"]', kwargs: '{}' };
    const headers = requeued(received(PYTHON), { redacted });
    expect(headers).toMatchObject({ retries: 3, argsrepr: '["****"]', 'outlast-redacted': true });
    const message = received(PYTHON);
    const kept = keepHeaders({ ...message, options: toBytes(encodeJson({ redacted })) }, message);
    expect(JSON.stringify(readOptions(kept))).not.toContain('4111');
  });

  it('is encoded again when Outlast has sent it', () => {
    const ours = encodeMessage(received(PYTHON), 'gen1@ours').headers;
    const message = received(ours);
    expect(keepHeaders(message, message)).toBe(message);
  });
});
