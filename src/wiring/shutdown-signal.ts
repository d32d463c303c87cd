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
  for (const [name, code] of Object.entries(EXIT_CODES)) {
    process.on(name, () => {
      if (controller.signal.aborted) process.exit(code);
      onFirst();
      controller.abort();
    });
  }
  return controller.signal;
}
