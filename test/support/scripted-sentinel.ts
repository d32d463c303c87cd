import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/**
 * A sentinel that a test controls: a real one cannot be made to announce a failover at a given moment. It answers what
 * a client asks: the current primary, and notifications of a new one.
 */
export class ScriptedSentinel {
  readonly #server: Server;
  readonly #primaryPort: number;
  readonly #subscribers = new Set<Socket>();
  #held: Socket[] | null = null;

  private constructor(server: Server, primaryPort: number) {
    this.#server = server;
    this.#primaryPort = primaryPort;
  }

  static async start(primaryPort: number): Promise<ScriptedSentinel> {
    const server = createServer();
    const sentinel = new ScriptedSentinel(server, primaryPort);
    server.on('connection', socket => sentinel.#serve(socket));
    await new Promise<void>(resolve => void server.listen(0, '127.0.0.1', resolve));
    return sentinel;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Clients that will be notified of a new primary. */
  get listening(): number {
    return this.#subscribers.size;
  }

  /** Clients that have asked for the primary since `hold` and have no answer. */
  get waiting(): number {
    return this.#held?.length ?? 0;
  }

  hold(): void {
    this.#held = [];
  }

  answer(): void {
    for (const socket of this.#held ?? []) this.#tellPrimary(socket);
    this.#held = null;
  }

  /** Answers from now on, but not what was asked before. */
  forget(): void {
    this.#held = null;
  }

  announce(): void {
    const word = list('message', '+switch-master', 'shop 127.0.0.1 1 127.0.0.1 2');
    for (const socket of this.#subscribers) socket.write(word);
  }

  close(): void {
    for (const socket of this.#subscribers) socket.destroy();
    this.#server.close();
  }

  #serve(socket: Socket): void {
    let rest = '';
    socket.on('error', () => undefined);
    socket.on('close', () => this.#subscribers.delete(socket));
    socket.on('data', part => {
      rest += part.toString();
      for (let read = readCommand(rest); read !== null; read = readCommand(rest)) {
        rest = rest.slice(read.length);
        this.#obey(socket, read.words);
      }
    });
  }

  #obey(socket: Socket, [verb = '', what = '']: readonly string[]): void {
    switch (`${verb} ${what}`.toLowerCase()) {
      case 'sentinel get-master-addr-by-name':
        return this.#held ? void this.#held.push(socket) : this.#tellPrimary(socket);
      case 'sentinel sentinels':
        return void socket.write('*0\r\n');
      case 'subscribe +switch-master':
        this.#subscribers.add(socket);
        return void socket.write(`*3\r\n${bulk('subscribe')}${bulk(what)}:1\r\n`);
      case 'hello 3':
        return void socket.write("-ERR unknown command 'HELLO'\r\n");
      default:
        socket.write('+OK\r\n');
    }
  }

  #tellPrimary(socket: Socket): void {
    socket.write(list('127.0.0.1', String(this.#primaryPort)));
  }
}

const bulk = (text: string): string => `$${text.length}\r\n${text}\r\n`;
const list = (...texts: readonly string[]): string =>
  `*${texts.length}\r\n${texts.map(bulk).join('')}`;

/** The first command of a stream; null: it is incomplete. Only ASCII is used here. */
function readCommand(text: string): { words: readonly string[]; length: number } | null {
  const head = /^\*(\d+)\r\n/.exec(text);
  if (head === null) return null;
  let at = head[0].length;
  const words: string[] = [];
  for (let left = Number(head[1]); left > 0; left--) {
    const size = /^\$(\d+)\r\n/.exec(text.slice(at));
    if (size === null) return null;
    const start = at + size[0].length;
    at = start + Number(size[1]) + 2;
    if (text.length < at) return null;
    words.push(text.slice(start, at - 2));
  }
  return { words, length: at };
}
