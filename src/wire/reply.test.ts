import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { toBytes } from '../task/json.ts';
import { makeEnvelope } from '../../test/conformance/envelopes.ts';
import { PYTHON_EXCEPTIONS, pythonException, shownException } from './python-exceptions.ts';
import { replyOf, wantsReply, type ReportedEnd } from './reply.ts';

interface Recorded {
  readonly broker: string;
  readonly name: string;
  readonly replies: readonly {
    readonly routing_key: string;
    readonly properties: { readonly correlation_id: string };
    readonly body: string;
  }[];
}

const url = new URL('../../test/vectors/celery/results-rpc.json', import.meta.url);
const { vectors } = JSON.parse(readFileSync(url, 'utf8')) as { vectors: Recorded[] };
const recorded = (name: string): Recorded['replies'][number] => {
  const reply = vectors.find(vector => vector.broker === 'amqp' && vector.name === name)
    ?.replies[0];
  if (reply === undefined) throw new Error(`no vector is called ${name}`);
  return reply;
};

const taskWith = (id: string, options: object) =>
  makeEnvelope({ id, options: toBytes(JSON.stringify(options)) });

describe('an exception', () => {
  it.each([
    ['ValueError', 'builtins.ValueError'],
    ['ERR_TIMEOUT', 'billiard.exceptions.TimeLimitExceeded'],
    ['SoftTimeLimitExceeded', 'billiard.exceptions.SoftTimeLimitExceeded'],
    ['ERR_TASK_UNKNOWN', 'celery.exceptions.NotRegistered'],
    ['ERR_RESURRECTIONS_SPENT', 'billiard.exceptions.WorkerLostError'],
    ['ChordError', 'celery.exceptions.ChordError'],
    ['NoFunds', 'outlast.NoFunds'],
    // They would end the caller.
    ['SystemExit', 'outlast.SystemExit'],
    ['KeyboardInterrupt', 'outlast.KeyboardInterrupt'],
    // It takes more than a text.
    ['UnicodeDecodeError', 'outlast.UnicodeDecodeError'],
    ['constructor', 'outlast.constructor'],
  ])('called %s is restored in Python as %s', (name, expected) => {
    const { type, module } = pythonException(name);
    expect(`${module}.${type}`).toBe(expected);
  });

  it('stands once in the table that scripts in Redis search', () => {
    const names = PYTHON_EXCEPTIONS.trim().split(' ');
    expect(new Set(names.map(entry => entry.split('=')[0])).size).toBe(names.length);
    expect(names.every(entry => /^\w+=[a-z.]+\.\w+$/.test(entry))).toBe(true);
  });

  it('is shown as Python shows it', () => {
    const error = { type: 'ERR_TIMEOUT', message: "it's\n\\" };
    expect(shownException(error)).toBe("TimeLimitExceeded('it\\'s\\n\\\\')");
  });
});

describe('a reply for rpc://', () => {
  it('equals the reply of a Celery worker', () => {
    const { routing_key: replyTo, properties, body } = recorded('success');
    const id = properties.correlation_id;
    const reply = replyOf(taskWith(id, { replyTo }), { status: 'SUCCESS', result: '5' });
    expect(reply).toEqual({ replyTo, correlationId: id, body });
  });

  it.each(['failure', 'retry'] as const)('has the fields of a recorded %s', name => {
    const { routing_key: replyTo, properties, body } = recorded(name);
    const theirs = JSON.parse(body) as Record<string, unknown>;
    const error = { type: 'ValueError', message: 'boom', traceback: 'where it was' };
    const outcome: ReportedEnd = { status: name === 'failure' ? 'FAILURE' : 'RETRY', error };
    const reply = replyOf(taskWith(properties.correlation_id, { replyTo }), outcome);
    const ours = JSON.parse(reply?.body ?? '') as Record<string, unknown>;
    expect(Object.keys(ours)).toEqual(Object.keys(theirs));
    expect(ours['status']).toBe(theirs['status']);
    expect(Object.keys(ours['result'] as object)).toEqual(Object.keys(theirs['result'] as object));
  });

  it('has the correlation id that the sender chose', () => {
    const envelope = taskWith('a', { replyTo: 'q', correlationId: 'mine' });
    const reply = replyOf(envelope, { status: 'REVOKED', why: 'expired' });
    expect(reply).toMatchObject({ replyTo: 'q', correlationId: 'mine' });
    expect(JSON.parse(reply?.body ?? '')).toMatchObject({
      task_id: 'a',
      status: 'REVOKED',
      result: { exc_type: 'TaskRevokedError', exc_message: ['expired'] },
    });
  });

  it('is not made without a reply address, or when results are ignored', () => {
    const outcome: ReportedEnd = { status: 'SUCCESS', result: '1' };
    expect(replyOf(taskWith('a', {}), outcome)).toBeNull();
    expect(replyOf(taskWith('a', { replyTo: 'q', keepResult: false }), outcome)).toBeNull();
    expect([taskWith('a', {}), taskWith('a', { replyTo: 'q' })].map(wantsReply)).toEqual([
      false,
      true,
    ]);
  });
});
