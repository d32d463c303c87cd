import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** A way to a server that can be cut, or fall silent with both ends believing it is there. */
export class TcpProxy {
  readonly #server: Server;
  readonly #pairs = new Set<readonly [Socket, Socket]>();
  #isSilent = false;
  #target: { readonly host: string; readonly port: number };
  /** Connections that are dead, though neither end knows it. */
  readonly #halfOpen = new WeakSet<Socket>();

  private constructor(host: string, port: number) {
    this.#target = { host, port };
    // A FIN is not answered while the proxy is silent.
    this.#server = createServer({ allowHalfOpen: true }, client => {
      const server = connect({ ...this.#target, allowHalfOpen: true });
      const pair = [client, server] as const;
      this.#pairs.add(pair);
      for (const [from, to] of [pair, [server, client] as const]) {
        from.on('data', (part: Buffer) => {
          if (!this.#isSilent && !this.#halfOpen.has(from)) to.write(part);
        });
        from.on('end', () => {
          if (!this.#isSilent && !this.#halfOpen.has(from)) to.end();
        });
        from.on('error', () => undefined);
        from.on('close', () => {
          // Half-open: the other end is not notified either.
          if (!this.#isSilent && !this.#halfOpen.has(from)) to.destroy();
          if (to.destroyed) this.#pairs.delete(pair);
        });
      }
    });
  }

  static async to(url: string): Promise<TcpProxy> {
    const { hostname, port } = new URL(url);
    const proxy = new TcpProxy(hostname, Number(port));
    await new Promise<void>(resolve => void proxy.#server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  /** The same URL by way of this proxy. */
  url(url: string): string {
    const through = new URL(url);
    through.port = String((this.#server.address() as AddressInfo).port);
    through.hostname = '127.0.0.1';
    return through.href;
  }

  /** New connections go to another server. */
  redirect(url: string): void {
    const { hostname, port } = new URL(url);
    this.#target = { host: hostname, port: Number(port) };
  }

  get connections(): number {
    return this.#pairs.size;
  }

  /** Cuts every connection without closing the protocol, as a killed process does. */
  cut(): void {
    for (const pair of this.#pairs) for (const socket of pair) socket.resetAndDestroy();
  }

  /** Swallows everything both ways, and takes new connections without answering. */
  silence(): void {
    this.#isSilent = true;
  }

  /** Swallows everything on the connections that are there; new ones work. */
  freeze(): void {
    for (const pair of this.#pairs) for (const socket of pair) this.#halfOpen.add(socket);
  }

  /** Forwards again; connections that were silenced are ended. */
  speak(): void {
    this.#isSilent = false;
    this.cut();
  }

  async close(): Promise<void> {
    this.#isSilent = false;
    const closed = new Promise<void>(resolve => void this.#server.close(() => resolve()));
    this.cut();
    await closed;
  }
}
