import { describe, expect, it } from 'vitest';
import { createOutlast } from '../app/create-outlast.ts';
import type { Logger } from '../telemetry/logger.ts';
import { startService, type Service } from '../runtime/runtime.ts';
import { AppServices, type LifeOptions } from './app-services.ts';

function setup(options: Partial<LifeOptions> = {}) {
  const lines: string[] = [];
  const write = (_: object, text: string): void => void lines.push(text);
  const log: Logger = { debug: write, info: write, warn: write, error: write, child: () => log };
  const outlast = createOutlast({ database: 'postgres://127.0.0.1:1/none', log });
  return { lines, outlast, services: new AppServices({ outlast, ...options }) };
}

const living = (ends: string[], name = 'living'): Service =>
  startService(async signal => {
    await new Promise(resolve => signal.addEventListener('abort', resolve));
    ends.push(name);
  });

describe('the services of an application', () => {
  it('are stopped, and the error thrown, when one of them cannot be started', async () => {
    const { services } = setup();
    const ends: string[] = [];
    const refused = new Error('no tables');
    const start = services.start(() => [Promise.resolve(living(ends)), Promise.reject(refused)]);
    await expect(start).rejects.toBe(refused);
    expect(ends).toEqual(['living']);
  });

  it('are not started after the application was closed', async () => {
    const { services } = setup();
    await services.close();
    await services.start(() => {
      throw new Error('started');
    });
  });

  it('that are still starting when it closes are stopped before the instance is closed', async () => {
    const { services, outlast } = setup();
    const ends: string[] = [];
    let resolve!: (service: Service) => void;
    const started = new Promise<Service>(begin => {
      resolve = begin;
    });
    const starting = services.start(() => [started]);
    const close = outlast.close.bind(outlast);
    outlast.close = async () => {
      ends.push('instance');
      await close();
    };
    const closing = services.close();
    resolve(living(ends));
    await Promise.all([starting, closing]);
    expect(ends).toEqual(['living', 'instance']);
  });

  it('that do not drain in time are left behind, and said to be', async () => {
    const { services, lines } = setup({ closeTimeout: '1ms' });
    const stuck = new Promise<void>(() => undefined);
    const service = { finished: stuck, stop: () => stuck, [Symbol.asyncDispose]: () => stuck };
    await services.start(() => [Promise.resolve(service)]);
    await services.close();
    expect(lines.join()).toContain('closeTimeout');
  });

  it('that break for good are reported, whatever the listener does, and do not keep it from closing', async () => {
    const seen: unknown[] = [];
    const { services, lines } = setup({
      onBroken: error => {
        seen.push(error);
        throw new Error('the listener');
      },
    });
    const broken = new Error('the tables are gone');
    const service = startService(() => Promise.reject(broken));
    await services.start(() => [Promise.resolve(service)]);
    await service.finished.catch(() => undefined);
    await Promise.resolve();
    expect([seen, services.broken]).toEqual([[broken], 'Error']);
    expect(lines.join()).toContain('`onBroken` failed');
    await services.close();
  });

  it('have a time that is a duration', () => {
    expect(() => setup({ closeTimeout: 5 as never })).toThrow('closeTimeout');
  });
});
