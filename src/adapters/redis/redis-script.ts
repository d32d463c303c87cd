import type { Cluster, Redis } from 'ioredis';

/** An embedded script of `lua/`: one atomic step. */
export interface LuaScript {
  readonly sha: string;
  readonly text: string;
}

/**
 * Runs a script by its hash. A server that does not know it (restarted, flushed, failed over) refuses before running
 * anything, so it is sent the text; every other error goes to the caller, because the script may have run.
 */
export async function runScript(
  client: Redis | Cluster,
  script: LuaScript,
  keys: readonly string[],
  args: readonly (string | number | Buffer)[],
): Promise<unknown> {
  try {
    return await client.callBuffer('evalsha', script.sha, keys.length, ...keys, ...args);
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
    return await client.callBuffer('eval', script.text, keys.length, ...keys, ...args);
  }
}
