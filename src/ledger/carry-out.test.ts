import { describe, expect, it } from 'vitest';
import { DestinationGuard } from '../broker/destination-guard.ts';
import { systemClock } from '../runtime/runtime.ts';
import { digestOf } from '../task/digest.ts';
import { toBytes } from '../task/json.ts';
import { NO_KEYS } from '../task/keyring.ts';
import type { Reply } from '../wire/reply.ts';
import { sendEntries } from './carry-out.ts';

describe('a chord whose part has no result', () => {
  const step = (id: string): string =>
    `{"task": "py.b", "args": [], "kwargs": {}, "options": {"task_id": "${id}", "reply_to": "callers"}}`;
  const chord = `{"task": "celery.chain", "args": [], "kwargs": {"tasks": [${step('body')}, ${step('last')}]}, "options": {}}`;
  const body = toBytes(
    `[[], {}, {"callbacks": null, "errbacks": null, "chain": null, "chord": ${chord}}]`,
  );
  const named = { id: 'parent', name: 'py.add', version: 1, body };
  const envelope = {
    ...named,
    queue: 'celery',
    priority: 0,
    options: toBytes('{"groupId":"g","replyTo":"callers"}'),
    digest: digestOf(named),
    etaMs: null,
    expiresMs: null,
  };
  const error = { type: 'ERR_TIMEOUT', message: 'too slow', traceback: '' };
  const raised = (of: string, how: string) => ({
    status: 'FAILURE',
    error: { type: 'ChordError', message: `Dependency ${of} ${how}`, traceback: '' },
  });

  it.each([
    [
      'its own error',
      { status: 'failed' } as const,
      raised('parent', "raised TimeLimitExceeded('too slow')"),
    ],
    [
      'that of the part which failed elsewhere',
      { status: 'failed', taskId: 'theirs', cause: { ...error, type: 'ValueError' } } as const,
      raised('theirs', "raised ValueError('too slow')"),
    ],
    [
      'none that is known',
      { status: 'failed', taskId: 'theirs' } as const,
      raised('theirs', 'did not end with a result'),
    ],
  ])('fails the waiters for its body and for later steps with %s', async (_, answer, told) => {
    const [stored, replies]: [unknown[], Reply[]] = [[], []];
    const ledger = {
      joinChord: async () => {
        // A caller who finds this raises the error of the part itself.
        expect(replies.map(({ correlationId }) => correlationId)).toEqual(['parent']);
        return answer;
      },
      bury: async () => [],
      recordNeverSent: async (...args: unknown[]) => void stored.push(args),
    };
    const broker = {
      publish: async () => [],
      reply: async (some: readonly Reply[]) => {
        replies.push(...some);
        return some.map(() => ({ status: 'confirmed' }) as const);
      },
    };
    const guard = new DestinationGuard(broker, systemClock);
    const entry = { key: 'k', ended: { envelope, how: 'dead', epoch: 1, error } as const };
    const follow = {
      nowMs: 0,
      queueOf: () => null,
      redact: null,
      keyring: NO_KEYS,
      answers: true,
    };
    const { done } = await sendEntries([entry], { guard, limitMs: 1_000, ledger, follow });
    expect(done).toEqual([entry]);
    expect(stored).toEqual([[['body', 'last'], told, told.error.message.split(' ')[1]]]);
    const shown = replies.map(({ replyTo, correlationId }) => `${replyTo} ${correlationId}`);
    expect(shown).toEqual(['callers parent', 'callers body', 'callers last']);
    expect(replies[2]?.body).toContain(JSON.stringify(told.error.message));
  });
});
