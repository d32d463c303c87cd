import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

/** The network between a client and a server, as bad as a test wants it. */
export interface ReplyProxy {
  readonly port: number;
  /** Ends every connection and takes no new ones until healed. */
  cut(): void;
  /** Connections stay open, but nothing comes back from the server any more: replies are lost. */
  muteReplies(): void;
  /** Ends muted connections and takes new ones. */
  heal(): void;
  close(): Promise<void>;
}

export async function startProxy(serverPort: number): Promise<ReplyProxy> {
  const pairs = new Set<readonly [Socket, Socket]>();
  let isCut = false;
  const server = createServer(client => {
    if (isCut) {
      client.destroy();
      return;
    }
    const upstream = connect(serverPort, '127.0.0.1');
    const pair = [client, upstream] as const;
    pairs.add(pair);
    const end = (): void => {
      pairs.delete(pair);
      client.destroy();
      upstream.destroy();
    };
    for (const socket of pair) socket.on('error', end).on('close', end);
    client.pipe(upstream);
    upstream.pipe(client);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const endAll = (): void => {
    for (const [client] of pairs) client.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    cut: () => {
      isCut = true;
      endAll();
    },
    muteReplies: () => {
      for (const [client, upstream] of pairs) {
        upstream.unpipe(client);
        upstream.resume();
      }
    },
    heal: () => {
      isCut = false;
      endAll();
    },
    close: async () => {
      isCut = true;
      endAll();
      server.close();
      await once(server, 'close');
    },
  };
}
