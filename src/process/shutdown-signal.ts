import { systemClock } from '../runtime/runtime.ts';

const ECHO_MS = 500;

/** Exit codes of a process that a second signal ended at once. */
const EXIT_CODES = { SIGINT: 130, SIGTERM: 143 } as const;

/**
 * Aborts on SIGTERM or SIGINT; a second one exits at once.
 *
 * @example
 * const signal = shutdownSignal();
 * const worker = await startWorker(outlast, { signal, tasks: [chargeHandler] });
 */
export function shutdownSignal(onFirst: () => void = () => undefined): AbortSignal {
  const controller = new AbortController();
  let firstAt = 0;
  for (const [name, code] of Object.entries(EXIT_CODES)) {
    process.on(name, () => {
      const now = systemClock.monotonic();
      // npm forwards a Ctrl-C that the terminal has sent us already: one press, two signals.
      if (controller.signal.aborted && now - firstAt > ECHO_MS) process.exit(code);
      if (controller.signal.aborted) return;
      firstAt = now;
      onFirst();
      controller.abort();
    });
  }
  return controller.signal;
}
