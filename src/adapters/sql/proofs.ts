interface Held {
  readonly proof: Promise<string>;
  users: number;
}

/** By handle, for all instances of the process: the mark of one would wipe out that of another. */
const held = new WeakMap<object, Held>();

/**
 * Uses a proof that this handle is in a transaction. `make` is called at once, so that its first statement stands before
 * whatever the caller runs next on the connection. Sends that run side by side in one transaction share the proof; `end` is
 * called after the last of them, unless one of them failed.
 */
export async function withProof<T>(
  tx: unknown,
  make: () => Promise<string>,
  use: (proof: string) => Promise<T>,
  end: (proof: string) => Promise<unknown> = async () => undefined,
): Promise<T> {
  const key = tx as object;
  const mine = held.get(key) ?? { proof: make(), users: 0 };
  held.set(key, mine);
  mine.users += 1;
  const leave = (): boolean => {
    mine.users -= 1;
    return mine.users === 0 && held.delete(key);
  };
  let value: T;
  try {
    value = await use(await mine.proof);
  } catch (error) {
    leave();
    throw error;
  }
  if (leave()) await end(await mine.proof);
  return value;
}
