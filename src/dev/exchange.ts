import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { SECURE_HEADERS, type Refusal } from './guard.ts';

export type Body = Readonly<Record<string, unknown>>;

/** How soon the browser reconnects after `outlast dev` was stopped and started. */
const RECONNECT_MS = 1_000;

/** One request to the page and its response. */
export class Exchange {
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;

  constructor(request: IncomingMessage, response: ServerResponse) {
    this.#request = request;
    this.#response = response;
    for (const [name, value] of Object.entries(SECURE_HEADERS)) response.setHeader(name, value);
  }

  /** False when the browser has left. */
  get isOpen(): boolean {
    return !this.#response.destroyed;
  }

  text(type: string, text: string, status = 200): void {
    if (this.#response.headersSent) return void this.#response.destroy();
    const headers = {
      'content-type': `${type}; charset=utf-8`,
      'content-length': Buffer.byteLength(text),
    };
    this.#response.writeHead(status, headers);
    this.#response.end(text);
  }

  json(value: unknown, status = 200): void {
    this.text('application/json', JSON.stringify(value), status);
  }

  refuse({ status, message }: Refusal): void {
    // What is left of a body is not read.
    if (!this.#request.complete) this.#response.setHeader('connection', 'close');
    this.json({ error: { message } }, status);
  }

  /** The body as an object; null when it is none, which is answered. Never more than `maxBytes` of it are kept. */
  async body(maxBytes: number): Promise<Body | null> {
    const text = await this.#read(maxBytes);
    if (text === null) {
      this.refuse({ status: 413, message: 'that is too much' });
      return null;
    }
    const value = parse(text);
    if (typeof value === 'object' && value !== null) return { ...value };
    this.refuse({ status: 400, message: 'send an object' });
    return null;
  }

  async #read(maxBytes: number): Promise<string | null> {
    if (Number(this.#request.headers['content-length'] ?? 0) > maxBytes) return null;
    const parts: Buffer[] = [];
    let bytes = 0;
    // With destroyOnReturn there would be no socket left for the refusal.
    for await (const part of this.#request.iterator({ destroyOnReturn: false })) {
      bytes += (part as Buffer).length;
      if (bytes > maxBytes) return null;
      parts.push(part as Buffer);
    }
    return Buffer.concat(parts).toString();
  }

  /** Server-sent events, until the source ends or the browser leaves. A slow browser holds the source back. */
  async stream(follow: (left: AbortSignal) => AsyncIterable<string>): Promise<void> {
    const left = new AbortController();
    this.#response.once('close', () => left.abort());
    this.#response.writeHead(200, { 'content-type': 'text/event-stream' });
    for await (const data of follow(left.signal)) {
      const event = `event: snapshot\ndata: ${data}\nretry: ${RECONNECT_MS}\n\n`;
      if (this.#response.write(event) || left.signal.aborted) continue;
      await once(this.#response, 'drain', { signal: left.signal }).catch(() => undefined);
    }
    this.#response.end();
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
