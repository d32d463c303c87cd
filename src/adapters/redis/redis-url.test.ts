import { describe, expect, it } from 'vitest';
import { parseRedisUrl } from './redis-url.ts';

const parse = (url: string): ReturnType<typeof parseRedisUrl> => parseRedisUrl(url, 'broker');
const plain = { service: '', username: undefined, password: undefined, db: 0, tls: null };

describe('a Redis URL', () => {
  it('names a server, a user, a password and a database', () => {
    expect(parse('redis://app:p%40ss%2Fword@cache.example:6380/5')).toEqual({
      ...plain,
      kind: 'single',
      addresses: [{ host: 'cache.example', port: 6380 }],
      username: 'app',
      password: 'p@ss/word',
      db: 5,
    });
  });

  it('needs no more than its scheme', () => {
    const local = { ...plain, kind: 'single', addresses: [{ host: 'localhost', port: 6379 }] };
    expect(parse('redis://')).toEqual(local);
    expect(parse('redis://localhost')).toEqual(local);
    expect(parse('redis://localhost/')).toEqual(local);
  });

  it('accepts a password without a user, an IPv6 address and the database as a query parameter', () => {
    expect(parse('redis://:secret@[::1]:7000?db=3')).toMatchObject({
      addresses: [{ host: '::1', port: 7000 }],
      username: undefined,
      password: 'secret',
      db: 3,
    });
  });

  it('enables TLS by its scheme, with files named as in Python', () => {
    expect(parse('rediss://cache').tls).toEqual({ ca: null, cert: null, key: null });
    expect(
      parse('rediss://cache?ssl_cert_reqs=CERT_REQUIRED&ssl_ca_certs=%2Fetc%2Fca.pem').tls?.ca,
    ).toBe('/etc/ca.pem');
  });

  it('lists sentinels with commas, or with semicolons as kombu does', () => {
    const expected = {
      ...plain,
      kind: 'sentinel',
      addresses: [
        { host: 'a', port: 26_379 },
        { host: 'b', port: 26_380 },
      ],
      service: 'mymaster',
      password: 'secret',
      db: 2,
    };
    expect(parse('sentinel://:secret@a,b:26380/mymaster/2')).toEqual(expected);
    expect(parse('sentinel://:secret@a/mymaster/2;sentinel://b:26380')).toEqual(expected);
    expect(parse('sentinel://:secret@a;sentinel://b:26380/2?master_name=mymaster')).toEqual(
      expected,
    );
  });

  it('lists the nodes of a cluster', () => {
    expect(parse('redis+cluster://a:7000,b:7001')).toEqual({
      ...plain,
      kind: 'cluster',
      addresses: [
        { host: 'a', port: 7000 },
        { host: 'b', port: 7001 },
      ],
    });
    expect(parse('rediss+cluster://a').tls).not.toBeNull();
  });

  it.each([
    ['http://localhost', 'not a Redis URL'],
    ['localhost:6379', 'not a Redis URL'],
    ['redis://a,b', 'several hosts'],
    ['redis://a;redis://b', 'semicolons'],
    ['redis://a:99999', 'host or port'],
    ['redis://a/first', 'is a number'],
    ['redis://a/1/2', 'is a number'],
    ['redis://a/%zz', 'percent-encoded'],
    ['sentinel://a:26379', 'does not name the service'],
    ['sentinel://a/0', 'does not name the service'],
    ['redis+cluster://a/1', 'database 0 only'],
    ['rediss://a?ssl_cert_reqs=none', 'without verification'],
  ])('is refused: %s', (url, why) => {
    expect(() => parse(url)).toThrow(
      expect.objectContaining({
        code: 'ERR_OPTION_RANGE',
        option: 'broker',
        message: expect.stringContaining(why) as string,
      }),
    );
  });

  it('is refused without its password in the message', () => {
    for (const url of [
      'redis://app:hunter2@a,b',
      'sentinel://app:hunter2@a',
      'x://app:hunter2@a',
    ]) {
      expect(() => parse(url)).toThrow(
        expect.not.objectContaining({ message: expect.stringContaining('hunter2') as string }),
      );
    }
  });
});
