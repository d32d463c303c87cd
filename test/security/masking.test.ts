import { describe, expect, it } from 'vitest';
import { examine } from '../../src/admin/doctor.ts';
import { resolveConfig } from '../../src/config/config.ts';
import { outlastError } from '../../src/errors/error.ts';
import { maskSecrets, maskUrl } from '../../src/errors/mask-secrets.ts';
import { parseRedisUrl } from '../../src/adapters/redis/redis-url.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { errorRecord } from '../../src/worker/run/error-record.ts';
import { SECRET_URLS, SHOWN_URLS } from './corpus/urls.ts';

const SECRET = /MARKER/;
/** A line of either log format with all its fields. */
const logged = (json: boolean, fields: object, message: string): string => {
  let out = '';
  const write = (line: string): void => void (out += line);
  createLogger({ level: 'debug', json, write, now: () => 0 }).error(fields, message);
  return out;
};

describe('a URL', () => {
  it.each(SECRET_URLS)('shows no secret: %s', url => {
    expect(maskUrl(url)).not.toMatch(SECRET);
  });

  it.each(SHOWN_URLS)('keeps the parts that identify it: %s', (url, shown) => {
    expect(maskUrl(url)).toBe(shown);
    expect(maskUrl(shown)).toBe(shown);
  });

  it.each(SECRET_URLS)('shows none inside a text: %s', url => {
    const isUrl = url.includes('://') || /\bpassword=/.test(url);
    if (!isUrl) return;
    for (const text of [
      `connect ECONNREFUSED ${url} after 3 tries`,
      `cannot parse "${url}", see the manual`,
      `(${url})`,
      JSON.stringify({ input: url }),
    ])
      expect(maskSecrets(text)).not.toMatch(SECRET);
  });

  it('shows none in errors, logs, task records and the report of the doctor', async () => {
    for (const url of SECRET_URLS.filter(one => one.includes('://'))) {
      const driver = Object.assign(new Error(`Invalid URL: ${url}`), { input: url });
      const wrapped = outlastError('ERR_STORE_UNAVAILABLE', {
        message: `the database cannot be used now: ${url}`,
        hint: '',
        fields: {},
        cause: driver,
      });
      expect(wrapped.message).not.toMatch(SECRET);
      for (const json of [true, false])
        expect(logged(json, { error: wrapped, driver, url }, `opening ${url}`)).not.toMatch(SECRET);
      const { message, traceback } = errorRecord(driver);
      expect(`${message} ${traceback}`).not.toMatch(SECRET);
      const check = () =>
        Promise.resolve([
          {
            name: 'server' as const,
            status: 'ok' as const,
            message: url,
            advice: null,
            details: {},
          },
        ]);
      const found = await examine([{ target: 'database', check }], []);
      expect(JSON.stringify(found)).not.toMatch(SECRET);
    }
  });

  it('shows none in the settings, nor in the error about a refused one', () => {
    let refusals = 0;
    const look = (config: object): void => {
      try {
        expect(JSON.stringify(resolveConfig(config).settings)).not.toMatch(SECRET);
      } catch (error) {
        refusals += 1;
        expect(`${(error as Error).message} ${JSON.stringify(error)}`).not.toMatch(SECRET);
      }
    };
    for (const url of SECRET_URLS) {
      look({ database: url });
      look({ broker: url });
      look({ outboxes: { crm: url } });
      look({ outboxes: { crm: { database: url } } });
      look({ broker: 'redis://h', ledger: url });
      try {
        parseRedisUrl(url, 'broker');
      } catch (error) {
        expect((error as Error).message).not.toMatch(SECRET);
      }
    }
    expect(refusals).toBeGreaterThan(50);
  });
});

describe('an unescaped separator in a password', () => {
  it.each([
    'postgres://do/main:MARKER@h/db',
    'postgres://app:12/MARKER@h/db',
    'postgres://app:12#MARKER@h/db',
    'mysql://do/main:MARKER@h/db',
  ])('is refused before a driver reads a part of it as a host or database: %s', database => {
    const broker = 'redis://h';
    expect(() => resolveConfig({ database, broker })).toThrow(/has an @ behind its host/);
  });

  it('is refused in the URL of RabbitMQ', () => {
    expect(() => resolveConfig({ broker: 'amqp://a:12/MARKER@h' })).toThrow(/@ behind its host/);
  });

  it('does not affect the user names of Azure', () => {
    const database = 'postgres://app@srv:pw@h.postgres.database.azure.com/db';
    expect(resolveConfig({ database }).settings['database']?.value).toBe(
      'postgres://app@srv:***@h.postgres.database.azure.com/db',
    );
  });
});

describe('a text', () => {
  it('keeps package paths, web addresses and words that only sound secret', () => {
    for (const text of [
      'at file:///app/node_modules/@hono/node-server/dist/index.js:10:5',
      'see https://example.com/docs/@latest?page=2#part.',
      'password must have 8 characters; the token expired',
    ])
      expect(maskSecrets(text)).toBe(text);
  });

  it('hides a secret that is named beside its value', () => {
    for (const text of [
      'host=db password=MARKER',
      '{"passphrase":"MARKER"}',
      "{ password: 'MARKER' }",
      "password='MARKER MARKER'",
    ])
      expect(maskSecrets(text)).not.toMatch(SECRET);
  });

  it('is masked in linear time, whatever it contains', () => {
    // Each of these would take minutes if a pattern scanned the rest of the text from every position.
    for (const piece of ['redis://x:y ', 'a.a.a.a', '://', 'https://h?key', 'password="', '@;x://'])
      expect(maskSecrets(`${piece.repeat(60_000)} ://`)).toContain('://');
  });
});
