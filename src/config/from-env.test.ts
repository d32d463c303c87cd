import { describe, expect, it } from 'vitest';
import { isOutlastError, type OutlastError } from '../errors/error.ts';
import { optionsFromEnv, optionsFromText } from './from-env.ts';
import { ALL_OPTIONS, OPTION_TABLE } from './option-table.ts';
import { SECTION_NAMES } from './options.ts';
import { resolveRelayOptions } from './relay-options.ts';
import { resolveResurrectorOptions } from './resurrector-options.ts';
import { resolveWorkerOptions } from './worker-options.ts';

function thrownBy(run: () => unknown): OutlastError {
  try {
    run();
  } catch (error) {
    if (isOutlastError(error)) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

describe('variables', () => {
  it('are read section by section', () => {
    const options = optionsFromEnv({
      OUTLAST_DATABASE_URL: 'postgres://localhost/shop',
      OUTLAST_RELAY_BATCH_SIZE: '500',
      OUTLAST_RELAY_STALE_TIMEOUT_SECONDS: '120',
      OUTLAST_WORKER_QUEUES: 'a=3,b',
      OUTLAST_WORKER_LEASE: '9',
      OUTLAST_RESURRECTOR_INTERVAL: '250ms',
    });
    expect(options).toEqual({
      database: 'postgres://localhost/shop',
      relay: { batchSize: 500, staleTimeoutSeconds: 120 },
      worker: { queues: { a: 3, b: 1 }, lease: '9s' },
      resurrector: { interval: '250ms' },
    });
  });

  it('exist for every option and accept its default', () => {
    const env = Object.fromEntries(ALL_OPTIONS.map(row => [row.env, row.default]));
    const options = optionsFromEnv(env);
    expect(resolveRelayOptions(options.relay)).toEqual(resolveRelayOptions());
    expect(resolveWorkerOptions(options.worker)).toEqual(resolveWorkerOptions());
    expect(resolveResurrectorOptions(options.resurrector)).toEqual(resolveResurrectorOptions());
    for (const section of SECTION_NAMES) {
      expect(Object.keys(options[section])).toHaveLength(OPTION_TABLE[section].length);
    }
  });

  it('are refused with the nearest one when they are unknown', () => {
    expect(thrownBy(() => optionsFromEnv({ OUTLAST_RELAY_BATCHSIZE: '5' }))).toMatchObject({
      code: 'ERR_UNKNOWN_OPTION',
      option: 'OUTLAST_RELAY_BATCHSIZE',
      nearest: 'OUTLAST_RELAY_BATCH_SIZE',
    });
    expect(thrownBy(() => optionsFromEnv({ OUTLAST_WORKER_COLOUR: 'red' }))).toMatchObject({
      code: 'ERR_UNKNOWN_OPTION',
      nearest: null,
    });
  });

  it('for tests, fault points and other programs are ignored', () => {
    const env = {
      OUTLAST_TEST_NODE22: '/x',
      OUTLAST_FAULT_POINT: 'relay.claimed',
      OUTLAST_RELAYED: '1',
      OUTLAST_SOMETHING: '1',
      PATH: '/bin',
    };
    expect(optionsFromEnv(env)).toEqual({
      database: undefined,
      relay: {},
      worker: {},
      resurrector: {},
    });
  });

  it('that Kubernetes sets for a service called outlast-relay are ignored', () => {
    const env = {
      OUTLAST_RELAY_SERVICE_HOST: '10.0.0.1',
      OUTLAST_RELAY_SERVICE_PORT: '80',
      OUTLAST_RELAY_SERVICE_PORT_HTTP: '80',
      OUTLAST_RELAY_PORT: 'tcp://10.0.0.1:80',
      OUTLAST_RELAY_PORT_80_TCP: 'tcp://10.0.0.1:80',
      OUTLAST_RELAY_PORT_80_TCP_ADDR: '10.0.0.1',
      OUTLAST_WORKER_METRICS_SERVICE_HOST: '10.0.0.2',
    };
    expect(optionsFromEnv(env).relay).toEqual({});
  });

  it('are refused when they are empty', () => {
    expect(thrownBy(() => optionsFromEnv({ OUTLAST_RELAY_BATCH_SIZE: '' }))).toMatchObject({
      code: 'ERR_OPTION_RANGE',
      option: 'OUTLAST_RELAY_BATCH_SIZE',
    });
  });
});

describe('options given as text', () => {
  it.each([
    ['1.0', 1_000],
    ['.5', 500],
    ['30', 30_000],
    ['500ms', 500],
    ['2m', 120_000],
    [' 3 ', 3_000],
  ])('accept %o as a duration', (text, idleTimeMs) => {
    const given = optionsFromText('relay', { idleTime: text });
    expect(resolveRelayOptions(given).options.idleTimeMs).toBe(idleTimeMs);
  });

  it.each(['ten', '-1', '1 second', '1e3'])('refuse %o as a duration', text => {
    const given = optionsFromText('relay', { idleTime: text });
    expect(thrownBy(() => resolveRelayOptions(given)).code).toBe('ERR_OPTION_UNIT');
  });

  it('are refused under the name of their flag', () => {
    expect(thrownBy(() => optionsFromText('relay', { batchSize: '1e3' }))).toMatchObject({
      code: 'ERR_OPTION_RANGE',
      option: '--batch-size',
    });
    expect(thrownBy(() => optionsFromText('relay', { staleTimeoutSeconds: '300s' }))).toMatchObject(
      {
        code: 'ERR_OPTION_UNIT',
        option: '--stale-timeout-seconds',
      },
    );
    expect(thrownBy(() => optionsFromText('worker', { concurency: '5' }))).toMatchObject({
      code: 'ERR_UNKNOWN_OPTION',
      option: '--concurency',
      nearest: 'concurrency',
    });
  });

  it('count as not given when they are undefined', () => {
    expect(optionsFromText('worker', { concurrency: undefined })).toEqual({});
  });

  it.each(['', ',', 'a,', 'a=', 'a=0', 'a=x', 'a=1=2', 'a=1.5', 'a,a'])(
    'refuse %o as queues',
    text => {
      const { code } = thrownBy(() => optionsFromText('worker', { queues: text }));
      expect(['ERR_OPTION_RANGE', 'ERR_NAME_UNSAFE']).toContain(code);
    },
  );
});
