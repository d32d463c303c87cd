/**
 * Where a process serves its database to others on this machine. A process that knows it may read
 * and write everything.
 */
export interface Endpoint {
  /** TCP port on 127.0.0.1. */
  readonly port: number;
  /** 32 random bytes in hexadecimal. */
  readonly token: string;
}
