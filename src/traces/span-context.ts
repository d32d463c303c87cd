import type { BaggageEntry, Context } from '@opentelemetry/api';
import { createRequire } from 'node:module';
import { outlastError } from '../errors/error.ts';
import {
  isKeptTrace,
  readBaggage,
  readTraceparent,
  writeBaggage,
  writeTraceparent,
} from '../task/trace-headers.ts';

export type Api = typeof import('@opentelemetry/api');
export type Headers = Readonly<Record<string, string>>;

export const NO_HEADERS: Headers = Object.freeze({});

/** The API is loaded at once: what surrounds a send is known only in the moment of the call. */
export function loadApi(): Api {
  try {
    return createRequire(import.meta.url)('@opentelemetry/api') as Api;
  } catch (cause) {
    throw outlastError('ERR_DRIVER_MISSING', {
      message: '`traces.opentelemetry` is on, and @opentelemetry/api cannot be loaded',
      hint: 'npm i @opentelemetry/api, and an SDK that is started before Outlast.',
      fields: { install: 'npm i @opentelemetry/api' },
      cause,
    });
  }
}

/** The headers that say where a context is in its trace; none outside of one. */
export function headersOf({ trace, propagation }: Api, context: Context): Headers {
  const at = trace.getSpanContext(context);
  if (at === undefined || !trace.isSpanContextValid(at)) return NO_HEADERS;
  const { traceId, spanId, traceFlags: flags } = at;
  const tracestate = at.traceState?.serialize() ?? '';
  const entries = propagation.getBaggage(context)?.getAllEntries() ?? [];
  const baggage = writeBaggage(entries.map(([key, { value }]) => [key, value]));
  return {
    traceparent: writeTraceparent({ traceId, spanId, flags }),
    ...(tracestate === '' || !isKeptTrace('tracestate', tracestate) ? {} : { tracestate }),
    ...(baggage === undefined ? {} : { baggage }),
  };
}

/** The context that headers name; null: they name none, or are not well-formed. */
export function contextFrom(api: Api, headers: Headers, isTrusted: boolean): Context | null {
  const at = readTraceparent(headers['traceparent']);
  if (at === null) return null;
  const { trace, propagation, createTraceState, ROOT_CONTEXT } = api;
  const { traceId, spanId, flags: traceFlags } = at;
  const { tracestate } = headers;
  const hasState = isTrusted && tracestate !== undefined && isKeptTrace('tracestate', tracestate);
  const state = hasState ? { traceState: createTraceState(tracestate) } : {};
  const point = { traceId, spanId, traceFlags, isRemote: true, ...state };
  const context = trace.setSpanContext(ROOT_CONTEXT, point);
  const entries = isTrusted ? readBaggage(headers['baggage']) : [];
  if (entries.length === 0) return context;
  const baggage = Object.fromEntries(
    entries.map(([key, value]): [string, BaggageEntry] => [key, { value }]),
  );
  return propagation.setBaggage(context, propagation.createBaggage(baggage));
}

/** Runs `fn` as a part of the trace that headers name: what an isolate does with those of its worker. */
export function inTrace<T>(headers: Headers, fn: () => T): T {
  const api = loadApi();
  const context = contextFrom(api, headers, true);
  return context === null ? fn() : api.context.with(context, fn);
}
