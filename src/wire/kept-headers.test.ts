import { describe, expect, it } from 'vitest';
import type { Envelope } from '../task/envelope.ts';
import { encodeJson, toBytes } from '../task/json.ts';
import { readOptions } from '../task/read-options.ts';
import { decodeMessage } from './decode-message.ts';
import { encodeMessage } from './encode-message.ts';
import { keepHeaders } from './kept-headers.ts';

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

function came(headers: object): Envelope {
  const body = toBytes('[["4111"],{},{}]');
  const message = decodeMessage({ headers, properties, body, queue: 'shared' });
  if ('raw' in message) throw new Error(message.why);
  return message;
}

function givenBack(message: Envelope, more: object = {}): Readonly<Record<string, unknown>> {
  const envelope = {
    ...message,
    options: toBytes(encodeJson({ ...readOptions(message), ...more })),
  };
  return encodeMessage(keepHeaders(envelope, message), 'gen1@ours').headers;
}

describe('a message that goes back to its broker', () => {
  it('has every header it came with, whoever refused it besides', () => {
    expect(givenBack(came(PYTHON))).toEqual(PYTHON);
    const refused = { times: 1, waitedMs: 1_000, by: ['host:1'] };
    const again = givenBack(came(PYTHON), { refused });
    expect(again).toEqual({ ...PYTHON, 'outlast-refused': JSON.stringify(refused) });
    expect(readOptions(came(again))).toMatchObject({ refused });
  });

  it('has none of those on which a broker acts, nor one of bytes that are inflated', () => {
    const acted = { CC: ['elsewhere'], BCC: ['elsewhere'], 'x-death': [{ count: 9 }] };
    expect(givenBack(came({ ...PYTHON, ...acted }))).toEqual(PYTHON);
  });

  it('shows no arguments that somebody has covered', () => {
    const redacted = { args: '["****"]', kwargs: '{}' };
    const headers = givenBack(came(PYTHON), { redacted });
    expect(headers).toMatchObject({ retries: 3, argsrepr: '["****"]', 'outlast-redacted': true });
    const message = came(PYTHON);
    const kept = keepHeaders({ ...message, options: toBytes(encodeJson({ redacted })) }, message);
    expect(JSON.stringify(readOptions(kept))).not.toContain('4111');
  });

  it('is made anew where it is ours', () => {
    const ours = encodeMessage(came(PYTHON), 'gen1@ours').headers;
    const message = came(ours);
    expect(keepHeaders(message, message)).toBe(message);
  });
});
