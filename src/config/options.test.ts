import { describe, expect, it } from 'vitest';
import { isOutlastError, type OutlastError } from '../errors/error.ts';
import { checkRelations } from './check-relations.ts';
import { defaultsOf } from '../options/option.ts';
import { ALL_OPTIONS, OPTION_TABLE, STAGE_TABLES } from './option-table.ts';
import { editDistance, nearest } from '../options/nearest.ts';
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

/** Calls with values that no type would allow, as JSON files and plain JavaScript do. */
const relay = (given: unknown): unknown => resolveRelayOptions(given as never);
const worker = (given: unknown): unknown => resolveWorkerOptions(given as never);

describe('defaults', () => {
  it('are the documented ones, in milliseconds', () => {
    expect(resolveRelayOptions().options).toEqual({
      batchSize: 100,
      idleTimeMs: 1_000,
      backoffTimeMs: 120_000,
      maxBackoffMs: 3_600_000,
      maxRetries: 5,
      staleTimeoutMs: 300_000,
      sendTimeoutMs: 10_000,
      shutdownTimeoutMs: 30_000,
      brokerOutageCooldownMs: 30_000,
      publishConcurrency: 1,
      queueSnapshotRefreshMs: 5_000,
      receiptTimeoutMs: 900_000,
      livenessFile: null,
      healthPort: null,
      lifeLine: false,
      healthHost: '127.0.0.1',
      jitter: 'tenth',
    });
    expect(resolveWorkerOptions().options).toEqual({
      queues: { default: 1 },
      timeoutMs: 0,
      concurrency: 50,
      processes: 1,
      leaseMs: 5_000,
      beatMs: 1_000,
      maxBlockMs: 120_000,
      idleTimeMs: 1_000,
      shutdownTimeoutMs: 30_000,
      dedupWindowMs: 900_000,
      resultTtlMs: 86_400_000,
      maxIsolated: 4,
      maxTasks: 0,
      maxMemoryMb: 0,
      livenessFile: null,
      healthPort: null,
      healthHost: '127.0.0.1',
      maxCheckpointBytes: 67_108_864,
      checkpointFolder: null,
      celeryControl: 'on',
      isolateKeys: 'off',
      celeryEvents: 'off',
      trackStarted: 'off',
    });
    expect(resolveResurrectorOptions().options).toEqual({
      unknownTaskTimeoutMs: 900_000,
      intervalMs: 500,
      batchSize: 500,
      afterDelayMs: 5_000,
    });
  });

  it('are frozen, and so are resolved options', () => {
    for (const table of Object.values(STAGE_TABLES)) {
      expect(Object.isFrozen(table)).toBe(true);
      expect(Object.isFrozen(defaultsOf(table))).toBe(true);
    }
    expect(Object.isFrozen(resolveWorkerOptions().options)).toBe(true);
    expect(Object.isFrozen(resolveWorkerOptions().options.queues)).toBe(true);
  });

  it('cause no warning and no conflict', () => {
    expect(resolveRelayOptions().warnings).toEqual([]);
    expect(resolveWorkerOptions().warnings).toEqual([]);
    expect(resolveResurrectorOptions().warnings).toEqual([]);
    checkRelations(resolveRelayOptions().options, resolveWorkerOptions().options);
  });
});

describe('a given option', () => {
  it('replaces the default', () => {
    const { options } = resolveRelayOptions({ batchSize: 7, idleTime: '250ms', jitter: 'full' });
    expect(options).toMatchObject({ batchSize: 7, idleTimeMs: 250, jitter: 'full', maxRetries: 5 });
  });

  it('counts as not given when it is undefined', () => {
    const { options } = resolveRelayOptions({ batchSize: undefined });
    expect(options.batchSize).toBe(100);
  });

  it('is refused when it is null', () => {
    expect(thrownBy(() => relay({ batchSize: null })).code).toBe('ERR_OPTION_RANGE');
    expect(thrownBy(() => relay({ idleTime: null })).code).toBe('ERR_OPTION_UNIT');
  });

  it('is rounded to whole milliseconds, which stores require', () => {
    const { options } = resolveRelayOptions({ idleTime: '1.0005s', staleTimeoutSeconds: 60.1 });
    expect(options).toMatchObject({ idleTimeMs: 1001, staleTimeoutMs: 60_100 });
  });
});

describe('an unknown option', () => {
  it('is refused with the nearest known one', () => {
    const error = thrownBy(() => relay({ batchsize: 5 }));
    expect(error).toMatchObject({
      code: 'ERR_UNKNOWN_OPTION',
      option: 'relay.batchsize',
      nearest: 'batchSize',
      hint: 'Did you mean `batchSize`?',
    });
  });

  it('is refused with the whole list when none is near', () => {
    const error = thrownBy(() => worker({ colour: 'red' }));
    expect(error).toMatchObject({ code: 'ERR_UNKNOWN_OPTION', nearest: null });
    expect(error.hint).toContain('concurrency');
  });

  it('is refused even when every object has a property of that name', () => {
    expect(thrownBy(() => relay({ constructor: 1 })).code).toBe('ERR_UNKNOWN_OPTION');
  });

  it('is ignored when it is undefined', () => {
    expect(() => relay({ colour: undefined })).not.toThrow();
  });
});

describe('a value out of range', () => {
  it.each([
    ['batchSize', { batchSize: 0 }],
    ['batchSize', { batchSize: 10_001 }],
    ['batchSize', { batchSize: 1.5 }],
    ['batchSize', { batchSize: Number.NaN }],
    ['batchSize', { batchSize: '100' }],
    ['maxRetries', { maxRetries: 0 }],
    ['idleTime', { idleTime: '0ms' }],
    ['idleTime', { idleTime: '2h' }],
    ['staleTimeoutSeconds', { staleTimeoutSeconds: Number.POSITIVE_INFINITY }],
    ['staleTimeoutSeconds', { staleTimeoutSeconds: '300s' }],
    ['jitter', { jitter: 'none' }],
    ['jitter', { jitter: 1 }],
  ])('of relay.%s is refused: %o', (key, given) => {
    const error = thrownBy(() => relay(given));
    expect(error).toMatchObject({ code: 'ERR_OPTION_RANGE', option: `relay.${key}` });
    expect(error.hint).toMatch(/^Use /);
  });

  it('is refused when a whole section is not an object', () => {
    for (const given of [null, [], 'x', 5]) {
      expect(thrownBy(() => relay(given))).toMatchObject({
        code: 'ERR_OPTION_RANGE',
        option: 'relay',
      });
    }
  });
});

describe('a value without a unit where a duration is expected', () => {
  it.each([1_000, '1000', '1 s', '1sec', '', '-1s'])('is refused: %o', value => {
    const error = thrownBy(() => relay({ idleTime: value }));
    expect(error).toMatchObject({ code: 'ERR_OPTION_UNIT', option: 'relay.idleTime' });
  });
});

describe('queues', () => {
  it('are names of weight 1, or names with weights', () => {
    expect(resolveWorkerOptions({ queues: ['a', 'b'] }).options.queues).toEqual({ a: 1, b: 1 });
    const weighted = resolveWorkerOptions({ queues: { billing: 3, default: 1 } });
    expect(weighted.options.queues).toEqual({ billing: 3, default: 1 });
  });

  it('may have any safe name', () => {
    const { queues } = resolveWorkerOptions({ queues: ['__proto__', 'a.b:c@d/e-f'] }).options;
    expect(Object.entries(queues)).toEqual([
      ['__proto__', 1],
      ['a.b:c@d/e-f', 1],
    ]);
  });

  it.each([[[]], [{}], ['default'], [null], [['a', 'a']], [{ a: 0 }], [{ a: 1.5 }], [{ a: '3' }]])(
    'are refused: %o',
    queues => {
      expect(thrownBy(() => worker({ queues }))).toMatchObject({
        code: 'ERR_OPTION_RANGE',
        option: 'worker.queues',
      });
    },
  );

  it('are refused when a name contains unsafe characters', () => {
    expect(thrownBy(() => worker({ queues: ['a b'] })).code).toBe('ERR_NAME_UNSAFE');
    expect(thrownBy(() => worker({ queues: [3] })).code).toBe('ERR_NAME_UNSAFE');
  });
});

describe('relations', () => {
  it('refuse a claim that ends during a publish', () => {
    const error = thrownBy(() => relay({ staleTimeoutSeconds: 10, sendTimeout: '10s' }));
    expect(error).toMatchObject({
      code: 'ERR_OPTIONS_CONFLICT',
      options: ['relay.staleTimeoutSeconds', 'relay.sendTimeout'],
    });
    expect(() => relay({ staleTimeoutSeconds: 10.001, sendTimeout: '10s' })).not.toThrow();
  });

  it('refuse a lease shorter than three heartbeats', () => {
    const error = thrownBy(() => worker({ lease: '5s', beat: '2s' }));
    expect(error).toMatchObject({
      code: 'ERR_OPTIONS_CONFLICT',
      options: ['worker.lease', 'worker.beat'],
    });
    expect(() => worker({ lease: '6s', beat: '2s' })).not.toThrow();
  });

  it('refuse a dedupWindow shorter than three stale timeouts', () => {
    const slow = resolveRelayOptions({ staleTimeoutSeconds: 301 }).options;
    const error = thrownBy(() => checkRelations(slow, resolveWorkerOptions().options));
    expect(error.code).toBe('ERR_OPTIONS_CONFLICT');
    expect(error.hint).toContain("'903s'");
    checkRelations(slow, resolveWorkerOptions({ dedupWindow: '903s' }).options);
  });
});

describe('warnings', () => {
  it('are given for a lease under three seconds', () => {
    expect(resolveWorkerOptions({ lease: '3s' }).warnings).toEqual([]);
    const { warnings } = resolveWorkerOptions({ lease: '2999ms', beat: '500ms' });
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain('`worker.lease`');
  });

  it('are given for a longest backoff below the first one, and for other unusual relay options', () => {
    expect(resolveRelayOptions({ maxBackoff: '60s' }).warnings[0]).toContain('`relay.maxBackoff`');
    expect(resolveRelayOptions({ publishConcurrency: 100 }).warnings).toEqual([]);
    for (const odd of [
      { publishConcurrency: 101 },
      { idleTime: '31s' },
      { brokerOutageCooldown: '301s' },
    ] as const) {
      const [key] = Object.keys(odd);
      expect(resolveRelayOptions(odd).warnings[0]).toContain(`\`relay.${key}\``);
    }
  });

  it('are given for a resurrector with a long interval', () => {
    expect(resolveResurrectorOptions({ interval: '11s' }).warnings).toHaveLength(1);
  });
});

describe('names in messages', () => {
  it('are the names under which the value was given', () => {
    const nameOf = (key: string): string => `--${key}`;
    const error = thrownBy(() => resolveRelayOptions({ batchSize: 0 }, nameOf));
    expect(error).toMatchObject({ option: '--batchSize' });
  });
});

describe('nearest', () => {
  it('counts insertions, deletions and replacements', () => {
    expect(editDistance('kitten', 'sitting')).toBe(3);
    expect(editDistance('', 'abc')).toBe(3);
    expect(editDistance('same', 'same')).toBe(0);
  });

  it('ignores case and separators', () => {
    expect(nearest('batch-size', ['idleTime', 'batchSize'])).toBe('batchSize');
    expect(nearest('BATCH_SIZE', ['idleTime', 'batchSize'])).toBe('batchSize');
  });

  it('is null when a guess would mislead', () => {
    expect(nearest('colour', ['batchSize', 'jitter'])).toBeNull();
  });
});

describe('the option table', () => {
  it('has every option of every stage under its three names', () => {
    for (const section of SECTION_NAMES)
      expect(OPTION_TABLE[section].map(row => row.key)).toEqual(
        Object.keys(defaultsOf(STAGE_TABLES[section])),
      );
    expect(OPTION_TABLE.relay.find(row => row.key === 'staleTimeoutSeconds')).toMatchObject({
      flag: '--stale-timeout-seconds',
      env: 'OUTLAST_RELAY_STALE_TIMEOUT_SECONDS',
      kind: 'seconds',
      default: '300',
    });
  });

  it('gives no two options the same variable', () => {
    expect(new Set(ALL_OPTIONS.map(row => row.env)).size).toBe(ALL_OPTIONS.length);
  });
});
