/** What is used of Sentry’s SDK for Node: `import * as Sentry from '@sentry/node'`. */
export interface SentryLike {
  getTraceData(): { readonly 'sentry-trace'?: string; readonly baggage?: string };
  continueTrace<T>(
    from: { readonly sentryTrace: string | undefined; readonly baggage: string | undefined },
    fn: () => T,
  ): T;
  startSpan<T>(
    span: {
      readonly name: string;
      readonly op: string;
      readonly attributes: Record<string, string | number>;
    },
    fn: () => T,
  ): T;
  captureException(
    error: unknown,
    about: {
      readonly level: 'error' | 'warning';
      readonly tags: Record<string, string>;
      readonly contexts: Record<string, Record<string, string | number>>;
    },
  ): unknown;
}

/** Which failures become events of Sentry: every attempt, or only what ends as a dead letter. */
export type SentryCapture = 'failed' | 'dead';
