import { describe, expect, it } from 'vitest';
import { parseAmqpUrl } from './amqp-url.ts';
import { readBroker } from './broker-target.ts';

const hosts = (url: string): object[] =>
  parseAmqpUrl(url, 'broker').map(({ hostname, port, vhost, username, password }) => ({
    hostname,
    port,
    vhost,
    username,
    password,
  }));
const guest = { username: 'guest', password: 'guest' };

describe('a RabbitMQ URL', () => {
  it.each([
    ['amqp://localhost', [{ hostname: 'localhost', port: 5672, vhost: '/', ...guest }]],
    ['amqp://', [{ hostname: 'localhost', port: 5672, vhost: '/', ...guest }]],
    ['pyamqp://mq//', [{ hostname: 'mq', port: 5672, vhost: '/', ...guest }]],
    ['amqps://mq/%2Fshop', [{ hostname: 'mq', port: 5671, vhost: '/shop', ...guest }]],
    [
      'amqp://app:p%40ss@mq:5673/shop',
      [{ hostname: 'mq', port: 5673, vhost: 'shop', username: 'app', password: 'p@ss' }],
    ],
    ['amqp://[::1]:5673/', [{ hostname: '::1', port: 5673, vhost: '/', ...guest }]],
    [
      'amqp://a:1@m1,m2:5673/v',
      [
        { hostname: 'm1', port: 5672, vhost: 'v', username: 'a', password: '1' },
        { hostname: 'm2', port: 5673, vhost: 'v', username: 'a', password: '1' },
      ],
    ],
    [
      'amqp://a:1@m1//;amqp://b:2@m2/v',
      [
        { hostname: 'm1', port: 5672, vhost: '/', username: 'a', password: '1' },
        { hostname: 'm2', port: 5672, vhost: 'v', username: 'b', password: '2' },
      ],
    ],
  ])('names hosts, user and virtual host: %s', (url, expected) => {
    expect(hosts(url)).toEqual(expected);
  });

  it('has query parameters for timeouts and TLS', () => {
    const [host] = parseAmqpUrl(
      'amqps://mq?heartbeat=3&connection_timeout=700&cacertfile=/ca.pem&certfile=/c.pem&keyfile=/k.pem&server_name_indication=other&verify=verify_peer',
      'broker',
    );
    expect(host).toMatchObject({
      isTls: true,
      heartbeatSeconds: 3,
      connectTimeoutMs: 700,
      caFile: '/ca.pem',
      certFile: '/c.pem',
      keyFile: '/k.pem',
      serverName: 'other',
    });
    expect(parseAmqpUrl('amqp://mq', 'broker')[0]).toMatchObject({ heartbeatSeconds: 10 });
  });

  it.each([
    ['amqp://app:hunter2@mq:99999', 'port'],
    ['amqp://app:hunter2@mq:x', 'host'],
    ['amqp://app:hunter2@m q', 'host'],
    ['amqp://app:hunter2%@mq', 'percent-encoded'],
    ['amqp://app:hunter2@mq?heartbeet=1', 'heartbeet'],
    ['amqp://app:hunter2@mq?heartbeat=0', 'heartbeat'],
    ['amqps://app:hunter2@mq?verify=verify_none', 'verification of the server'],
    ['amqp:/app:hunter2@mq', 'well-formed'],
    ['amqp://app:hunter2@m1;m2', 'well-formed'],
  ])('is refused when it is wrong, without its password in the message: %s', (url, message) => {
    const parse = (): unknown => parseAmqpUrl(url, 'broker');
    expect(parse).toThrow(message);
    expect(parse).toThrow(expect.objectContaining({ code: 'ERR_OPTION_RANGE' }) as Error);
    expect(parse).not.toThrow('hunter2');
  });
});

describe('the broker option', () => {
  it('is a URL, or an object with a URL', () => {
    expect(readBroker('amqp://mq', 'broker')).toMatchObject({
      kind: 'rabbitmq',
      queueType: 'classic',
      maxPriority: null,
      ackOn: 'commit',
    });
    const options = { url: 'amqps://mq', queueType: 'quorum', ackOn: 'begin' };
    expect(readBroker(options, 'broker')).toMatchObject({ kind: 'rabbitmq', ...options });
    expect(readBroker({ url: 'redis://r', ackOn: 'begin' }, 'broker')).toEqual({
      kind: 'redis',
      url: 'redis://r',
      ackOn: 'begin',
      chordQueue: 'outlast.chords',
      destinations: [],
    });
    const destinations = ['billing.*', 'exchange:events'];
    expect(readBroker({ url: 'redis://r', destinations }, 'broker')).toMatchObject({
      destinations,
    });
  });

  it.each<[unknown, string, string]>([
    [{ url: 'amqp://mq', queuetype: 'quorum' }, 'ERR_UNKNOWN_OPTION', 'broker.queuetype'],
    [{ url: 'amqp://mq', queueType: 'mirrored' }, 'ERR_OPTION_RANGE', 'broker.queueType'],
    [{ url: 'amqp://mq', ackOn: 'never' }, 'ERR_OPTION_RANGE', 'broker.ackOn'],
    [{ url: 'amqp://mq', maxPriority: 0 }, 'ERR_OPTION_RANGE', 'broker.maxPriority'],
    [{ url: 'amqp://mq', destinations: 'q' }, 'ERR_OPTION_RANGE', 'broker.destinations'],
    [{ url: 'amqp://mq', destinations: [''] }, 'ERR_OPTION_RANGE', 'broker.destinations'],
    [
      { url: 'amqp://mq', maxPriority: 9, queueType: 'quorum' },
      'ERR_OPTIONS_CONFLICT',
      'maxPriority',
    ],
    [{ url: 'redis://r', queueType: 'quorum' }, 'ERR_OPTIONS_CONFLICT', 'broker.queueType'],
    [{ ackOn: 'begin' }, 'ERR_OPTION_RANGE', 'is not a URL'],
    ['kafka://app:hunter2@k', 'ERR_OPTION_RANGE', 'kafka://app:***@k'],
    ['', 'ERR_OPTION_RANGE', 'is not a URL'],
    [7, 'ERR_OPTION_RANGE', 'broker'],
  ])('is refused when it is %j', (given, code, message) => {
    const read = (): unknown => readBroker(given, 'broker');
    expect(read).toThrow(expect.objectContaining({ code }) as Error);
    expect(read).toThrow(message);
  });
});
