import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { toBytes } from '../task/json.ts';
import { makeEnvelope } from '../../test/conformance/envelopes.ts';
import { replyOf, wantsReply, type Told } from './reply.ts';

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
    const outcome: Told = { status: name === 'failure' ? 'FAILURE' : 'RETRY', error };
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
    const outcome: Told = { status: 'SUCCESS', result: '1' };
    expect(replyOf(taskWith('a', {}), outcome)).toBeNull();
    expect(replyOf(taskWith('a', { replyTo: 'q', keepResult: false }), outcome)).toBeNull();
    expect([taskWith('a', {}), taskWith('a', { replyTo: 'q' })].map(wantsReply)).toEqual([
      false,
      true,
    ]);
  });
});
