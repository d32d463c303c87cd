import { describe, expect, it } from 'vitest';
import { makeEnvelope } from '../../test/conformance/envelopes.ts';
import { toBytes } from '../task/json.ts';
import type { Envelope } from '../task/envelope.ts';
import { ownManner } from './destinations.ts';

const NOTHING = { callbacks: null, errbacks: null, chain: null, chord: null };
const messageWith = (embed: object): Envelope => ({
  ...makeEnvelope(),
  body: toBytes(JSON.stringify([[{ queue: 'argument' }], {}, embed])),
});
const sign = (queue: string, options: object = {}): object => ({
  task: 'some',
  args: [{ task: 'no', options: { queue: 'argument' } }],
  kwargs: { tasks: [{ task: 'no', options: { queue: 'argument' } }] },
  options: { queue, ...options },
});
const all = (task: string, kwargs: object, options: object = {}): object => ({
  task,
  args: [],
  kwargs,
  options,
});

describe('queues of follow-ups', () => {
  it('are found in links, error links, chains and chords, at every depth', () => {
    const embed = {
      callbacks: [
        sign('link', { link: [sign('link-of-link')] }),
        all('outlast.chord_part', { body: JSON.stringify(sign('body-as-text')) }),
      ],
      errbacks: [sign('error', { link_error: [sign('error-of-error')] })],
      chain: [
        all('celery.chain', { tasks: [sign('inner')] }),
        all('celery.chord', {
          header: all('celery.group', { tasks: [sign('header')] }),
          body: sign('body', { chain: [sign('rest')] }),
        }),
        all('celery.group', { tasks: [sign('member')] }, { chord: sign('of-group') }),
      ],
      chord: sign('chord'),
    };
    expect(ownManner([messageWith(embed)])?.alsoDeclare?.toSorted()).toEqual(
      [
        'body',
        'body-as-text',
        'chord',
        'error',
        'error-of-error',
        'header',
        'inner',
        'link',
        'link-of-link',
        'member',
        'of-group',
        'rest',
      ].toSorted(),
    );
  });

  it('do not include names for an exchange, or names that Celery and Outlast reserve', () => {
    const callbacks = [
      sign('events', { exchange: 'events' }),
      sign('celery.pidbox'),
      sign('outlast:x'),
      sign('plain', { exchange: '' }),
    ];
    expect(ownManner([messageWith({ ...NOTHING, callbacks })])).toEqual({ alsoDeclare: ['plain'] });
  });

  it('are none when nothing follows, and none when the body cannot be read', () => {
    expect(ownManner([messageWith(NOTHING)])).toBeUndefined();
    expect(
      ownManner([{ ...makeEnvelope(), body: toBytes('[[],{},{"callbacks":[1') }]),
    ).toBeUndefined();
  });

  it('are a hundred at most in one call, and none below the depth limit', () => {
    const callbacks = Array.from({ length: 500 }, (_, index) => sign(`q${index}`));
    const manner = ownManner([messageWith({ ...NOTHING, callbacks })]);
    expect(manner?.alsoDeclare).toHaveLength(100);
    let deep = sign('deepest');
    for (let depth = 0; depth < 60; depth++) deep = all('celery.chain', { tasks: [deep] });
    expect(ownManner([messageWith({ ...NOTHING, callbacks: [deep] })])).toBeUndefined();
  });
});
