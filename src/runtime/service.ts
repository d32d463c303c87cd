/**
 * A long-lived part: started by the function that returns it, stopped by `stop()`.
 * Stopping drains. It may be called twice, early, or while another stop is under way: all wait for the same end.
 */
export interface Service extends AsyncDisposable {
  /** Resolves when the service has ended as asked; rejects when it broke for good. */
  readonly finished: Promise<void>;
  stop(): Promise<void>;
}

/** Runs `body` until its signal aborts and it returns. Turns one async function into a `Service`. */
export function startService(
  body: (signal: AbortSignal) => Promise<void>,
  outer?: AbortSignal,
): Service {
  const controller = new AbortController();
  const abort = (): void => controller.abort();
  if (outer?.aborted) abort();
  else outer?.addEventListener('abort', abort, { once: true });
  const finished = body(controller.signal).finally(() =>
    outer?.removeEventListener('abort', abort),
  );
  // A caller need not handle `finished`; one that does gets the rejection.
  finished.catch(() => undefined);
  const stop = async (): Promise<void> => {
    abort();
    await finished;
  };
  return { finished, stop, [Symbol.asyncDispose]: stop };
}
