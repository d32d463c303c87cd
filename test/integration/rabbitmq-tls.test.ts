import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer } from 'node:tls';
import { expect, it, onTestFinished } from 'vitest';
import type { PublishOutcome } from '../../src/broker/broker.ts';
import { makeEnvelope } from '../conformance/envelopes.ts';
import { CERTIFICATE, EXPIRED_CERTIFICATE, KEY } from '../support/certificates.ts';
import { rabbitBroker } from '../support/rabbit-broker.ts';
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

it('publishes over TLS to a server whose certificate is of the authority named', async () => {
  const port = await listen(CERTIFICATE);
  const ca = fileWith(CERTIFICATE);
  for (const host of ['127.0.0.1', 'localhost']) {
    const url = `amqps://guest:guest@${host}:${port}/?cacertfile=${ca}`;
    expect(await publish(url)).toEqual({ status: 'confirmed' });
  }
});

it('refuses a server whose authority nobody has named, and says how to', async () => {
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

it('refuses a certificate of another name', async () => {
  const port = await listen(CERTIFICATE);
  const url = `amqps://127.0.0.1:${port}/?server_name_indication=other.example&cacertfile=${fileWith(CERTIFICATE)}`;
  expect(await publish(url)).toMatchObject(said('ERR_TLS_CERT_ALTNAME_INVALID'));
});

it('says which file it cannot read', async () => {
  expect(await publish('amqps://127.0.0.1:1/?cacertfile=/no/such/file')).toMatchObject(
    said('/no/such/file'),
  );
});
