// @ts-check
/** Asking a server, in its own protocol, whether it is ready. */
import { connect, createServer } from 'node:net';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';

const ASK_EVERY_MS = 50;
const ANSWER_MS = 2_000;

/**
 * What to send after connecting and which first bytes mean yes.
 * @typedef {{ hello: Buffer | null, isReady: (answer: Buffer) => boolean }} Question
 */

/** A server that is starting up accepts the connection and answers with an error. @type {Question} */
export const POSTGRES = {
  hello: postgresHello('postgres'),
  // AuthenticationOk: 'R', length 8, code 0.
  isReady: answer => answer.subarray(0, 9).equals(Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 0])),
};

/** The server speaks first: a packet header of four bytes, then version 10 of the protocol. @type {Question} */
export const MYSQL = { hello: null, isReady: answer => answer[4] === 10 };

/** @type {Question} */
export const REDIS = {
  hello: Buffer.from('PING\r\n'),
  isReady: answer => answer.toString().startsWith('+PONG'),
};

/** The answer is a method frame (type 1) on channel 0: connection.start. @type {Question} */
export const AMQP = {
  hello: Buffer.from('AMQP\0\0\x09\x01', 'latin1'),
  isReady: answer => answer.subarray(0, 3).equals(Buffer.from([1, 0, 0])),
};

/** @param {string} user */
function postgresHello(user) {
  const fields = Buffer.from(`user\0${user}\0database\0postgres\0\0`);
  const head = Buffer.alloc(8);
  head.writeInt32BE(head.length + fields.length, 0);
  head.writeInt32BE(3 << 16, 4);
  return Buffer.concat([head, fields]);
}

/**
 * Resolves when the server on a loopback port says that it is ready. Throws when the time is up or
 * `hasFailed` says that waiting is in vain.
 * @param {number} port
 * @param {Question} question
 * @param {{ withinMs: number, hasFailed: () => boolean }} limits
 */
export async function waitUntilReady(port, question, { withinMs, hasFailed }) {
  const deadline = performance.now() + withinMs;
  while (!(await ask(port, question))) {
    if (hasFailed()) throw new Error('it ended instead of starting');
    if (performance.now() > deadline) throw new Error(`it was not ready within ${withinMs} ms`);
    await delay(ASK_EVERY_MS);
  }
}

/**
 * @param {number} port
 * @param {Question} question
 * @returns {Promise<boolean>}
 */
function ask(port, { hello, isReady }) {
  return new Promise(resolve => {
    const socket = connect(port, '127.0.0.1');
    /** @param {boolean} ready */
    const finish = ready => {
      socket.destroy();
      resolve(ready);
    };
    socket.setTimeout(ANSWER_MS, () => finish(false));
    socket.on('connect', () => hello !== null && socket.write(hello));
    socket.on('data', answer => finish(isReady(answer)));
    socket.on('error', () => finish(false));
    socket.on('close', () => finish(false));
  });
}

/**
 * Ports of the loopback interface that are free. All are held until the last one is found, so
 * that they differ.
 * @param {number} count
 */
export async function findFreePorts(count) {
  const holders = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  await Promise.all(holders.map(holder => once(holder, 'listening')));
  const ports = holders.map(holder => {
    const address = holder.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  });
  await Promise.all(holders.map(holder => new Promise(done => holder.close(done))));
  return ports;
}
