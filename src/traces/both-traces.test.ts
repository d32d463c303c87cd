import { expect, it } from 'vitest';
import type { RunTrace, Traces } from '../telemetry/traces.ts';
import { makeEnvelope } from '../../test/conformance/envelopes.ts';
import { BothTraces } from './both-traces.ts';

function noting(name: string, steps: string[]): Traces {
  const headers = { [name]: 'x', baggage: name };
  const run: RunTrace = {
    headers,
    isolateHeaders: name === 'two' ? headers : null,
    started: () => void steps.push(`${name} started`),
    within: fn => {
      steps.push(`${name} within`);
      return fn();
    },
    ended: ({ outcome }) => void steps.push(`${name} ${outcome}`),
    settle: fn => fn(),
  };
  return {
    create: fn => fn({ headers, wrote: tasks => void steps.push(`${name} wrote ${tasks.length}`) }),
    publish: (messages, fn) => {
      steps.push(`${name} publishes ${messages.length}`);
      return fn();
    },
    begun: () => run,
  };
}

it('calls both at every step, and of two headers with one name that of the first counts', async () => {
  const steps: string[] = [];
  const both = new BothTraces(noting('one', steps), noting('two', steps));
  const envelope = makeEnvelope();
  const headers = { one: 'x', two: 'x', baggage: 'one' };
  await both.create(async trace => {
    expect(trace.headers).toEqual(headers);
    trace.wrote([envelope]);
  });
  expect(await both.publish([envelope], async () => [{ status: 'confirmed' }])).toHaveLength(1);
  const run = both.begun({ id: 'a', epoch: 1, failures: 0, crashes: 0, envelope });
  expect([run.headers, run.isolateHeaders]).toEqual([headers, { two: 'x', baggage: 'two' }]);
  run.started();
  expect(run.within(() => 7)).toBe(7);
  run.ended({ outcome: 'done' });
  expect(run.settle(() => 8)).toBe(8);
  const expected = ['wrote 1', 'publishes 1', 'started', 'within', 'done'];
  expect(steps).toEqual(expected.flatMap(step => [`one ${step}`, `two ${step}`]));
});
