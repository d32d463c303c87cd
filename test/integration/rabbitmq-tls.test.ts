import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer } from 'node:tls';
import { expect, it, onTestFinished } from 'vitest';
import { fromPg } from '../../dist/adapters/transactions/pg.js';
import { createOutlast, startRelay, task, unchecked } from '../../dist/index.js';
import type { PublishOutcome } from '../../src/broker/broker.ts';
import { makeEnvelope, unique } from '../conformance/envelopes.ts';
import { CERTIFICATE, EXPIRED_CERTIFICATE, KEY } from '../support/certificates.ts';
import { gate, migratedDatabase, until } from '../support/database.ts';
import { rabbitBroker } from '../support/rabbit-broker.ts';
import { RabbitInspector } from '../support/rabbit-inspector.ts';
import { rabbitmqUrl } from '../support/servers.ts';

/** TLS in front of the RabbitMQ of the tests; its port. */
async function listen(cert: string): Promise<number> {
  const { hostname, port } = new URL(rabbitmqUrl());
  const server = createServer({ key: KEY, cert }, client => {
    const behind = connect(Number(port), hostname);
    client.pipe(behind).pipe(client);
    for (const socket of [client, behind]) socket.on('error', () => undefined);
  });
  server.on('tlsClientError', () => undefined);
  await new Promise<void>(resolve => void server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

function fileWith(text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'outlast-tls-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'ca.pem'), text);
  return join(folder, 'ca.pem');
}

async function publish(url: string): Promise<PublishOutcome | undefined> {
  const broker = rabbitBroker(url);
  onTestFinished(() => broker.close());
  return (await broker.publish([makeEnvelope()]))[0];
}

const said = (text: string): object => ({
  status: 'unavailable',
  error: expect.stringContaining(text) as string,
});

it('publishes over TLS to a server whose certificate is from the named authority', async () => {
  const port = await listen(CERTIFICATE);
  const ca = fileWith(CERTIFICATE);
  for (const host of ['127.0.0.1', 'localhost']) {
    const url = `amqps://guest:guest@${host}:${port}/?cacertfile=${ca}`;
    expect(await publish(url)).toEqual({ status: 'confirmed' });
  }
});

it('refuses a server of an unknown authority, and explains how to name it', async () => {
  const port = await listen(CERTIFICATE);
  const outcome = await publish(`amqps://guest:guest@127.0.0.1:${port}/`);
  expect(outcome).toMatchObject(said('certificate that is not trusted'));
  expect(outcome).toMatchObject(said('cacertfile'));
});

it('refuses a certificate that has expired', async () => {
  const port = await listen(EXPIRED_CERTIFICATE);
  const url = `amqps://guest:guest@127.0.0.1:${port}/?cacertfile=${fileWith(EXPIRED_CERTIFICATE)}`;
  expect(await publish(url)).toMatchObject(said('CERT_HAS_EXPIRED'));
});

it('refuses a certificate for another host name', async () => {
  const port = await listen(CERTIFICATE);
  const url = `amqps://127.0.0.1:${port}/?server_name_indication=other.example&cacertfile=${fileWith(CERTIFICATE)}`;
  expect(await publish(url)).toMatchObject(said('ERR_TLS_CERT_ALTNAME_INVALID'));
});

it('names the file that it cannot read', async () => {
  expect(await publish('amqps://127.0.0.1:1/?cacertfile=/no/such/file')).toMatchObject(
    said('/no/such/file'),
  );
});

it('a relay that is refused logs the reason, and its rows wait without spending a retry', async () => {
  const database = await migratedDatabase('refused');
  onTestFinished(() => database.dispose());
  const echo = task('refused', { queue: unique('queue'), input: unchecked<string>() });
  const port = await listen(EXPIRED_CERTIFICATE);
  const at = (change: object): string => Object.assign(new URL(rabbitmqUrl()), change).href;
  const refusals = {
    CERT_HAS_EXPIRED: `amqps://guest:guest@127.0.0.1:${port}/?cacertfile=${fileWith(EXPIRED_CERTIFICATE)}`,
    'wrong user or password': at({ password: 'wrong' }),
    'virtual host missing': at({ pathname: '/missing' }),
  };
  const instanceOn = (broker: string) => {
    const outlast = createOutlast({
      database: database.url,
      broker,
      adapter: fromPg(database.pool),
    });
    onTestFinished(() => outlast.close());
    return outlast;
  };
  const rows = async () =>
    (await database.pool.query<{ retries: number }>('select retries from outlast_outbox')).rows;
  let sent = 0;
  for (const [why, broker] of Object.entries(refusals)) {
    const outlast = instanceOn(broker);
    await expect(outlast.push(echo, why)).rejects.toMatchObject({
      code: 'ERR_BROKER_UNAVAILABLE',
      message: expect.stringContaining(why) as string,
    });
    await outlast.transaction(tx => outlast.send(tx, echo, why));
    sent += 1;
    const opened = gate();
    outlast.on('relay:breaker-opened', () => opened.open());
    const relay = await startRelay(outlast, { maxRetries: 1, brokerOutageCooldown: '50ms' });
    await opened.opened;
    await relay.stop();
    expect(await rows()).toEqual(Array.from({ length: sent }, () => ({ retries: 0 })));
  }
  const relay = await startRelay(instanceOn(rabbitmqUrl()), { brokerOutageCooldown: '50ms' });
  onTestFinished(() => relay.stop());
  const rabbit = await RabbitInspector.connect();
  onTestFinished(() => rabbit.close());
  await until(async () => (await rabbit.depth(echo.contract.queue)) === sent);
  await until(async () => (await rows()).length === 0);
});
