import { Command } from 'commander';
import { expect, it } from 'vitest';
import { addSendFlags, readSendFlags } from './send-flags.ts';

const parse = (...args: string[]): object =>
  readSendFlags(addSendFlags(new Command()).parse(args, { from: 'user' }).opts());

it('reads the flags of a send as the option table defines them', () => {
  expect(parse('--countdown', '10', '--expires', '5m', '--queue', 'q', '--tenant', 'acme')).toEqual(
    {
      countdown: '10s',
      expires: '5m',
      queue: 'q',
      tenant: 'acme',
    },
  );
  expect(parse('--eta', '2030-01-01T00:00:00Z', '--id', 'mine')).toEqual({
    eta: new Date('2030-01-01T00:00:00Z'),
    id: 'mine',
  });
});

it('accepts a duration or a timestamp for --expires', () => {
  expect(parse('--expires', '90')).toEqual({ expires: '90s' });
  expect(parse('--expires', '2030-01-01T00:00:00Z')).toEqual({
    expires: new Date('2030-01-01T00:00:00Z'),
  });
});

it('omits options that were not given', () => {
  expect(parse()).toEqual({});
});
