import type { BegunTask, ErrorRecord } from '../ledger/ledger.ts';
import type { Envelope } from '../task/envelope.ts';
import type { Redact } from '../task/redact.ts';
import { shorten } from '../wire/describe-call.ts';
import { readOptions } from '../task/read-options.ts';
import { formatInstant } from '../wire/iso-time.ts';
import type { Settlement } from '../worker/run/settlement.ts';
import { shownCall } from './shown-call.ts';

/** A Celery event about one task. */
export interface TaskEvent {
  readonly type: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Celery's `task-received`: the only one that describes the task. */
export function receivedEvent(
  envelope: Envelope,
  retries: number,
  redact: Redact | null,
): TaskEvent {
  const { id, name, etaMs, expiresMs } = envelope;
  const { rootId, parentId } = readOptions(envelope);
  const instant = (ms: number | null): string | null => (ms === null ? null : formatInstant(ms));
  return {
    type: 'task-received',
    fields: {
      uuid: id,
      name,
      ...shownCall(envelope, redact),
      root_id: rootId ?? id,
      parent_id: parentId ?? null,
      retries,
      eta: instant(etaMs),
      expires: instant(expiresMs),
    },
  };
}

export function revokedEvent(
  uuid: string,
  how: { readonly signal?: string; readonly isExpired?: boolean } = {},
): TaskEvent {
  const { signal, isExpired = false } = how;
  return {
    type: 'task-revoked',
    fields: { uuid, terminated: signal !== undefined, signum: signal ?? null, expired: isExpired },
  };
}

/** The end of a run as a Celery event; null if Celery has none for it. */
export function endedEvent(
  { id: uuid }: BegunTask,
  settlement: Settlement,
  { ranMs, isResultShown }: { readonly ranMs: number; readonly isResultShown: boolean },
): TaskEvent | null {
  switch (settlement.kind) {
    case 'commit': {
      // A task that its handler discarded neither succeeded nor failed.
      if (settlement.outcome.kind === 'discarded') return rejectedEvent(uuid, false);
      const result = isResultShown ? shorten(settlement.value) : '"[hidden]"';
      return { type: 'task-succeeded', fields: { uuid, result, runtime: ranMs / 1_000 } };
    }
    case 'fail': {
      const type = settlement.delayMs === null ? 'task-failed' : 'task-retried';
      return { type, fields: { uuid, ...errorFields(settlement.error) } };
    }
    case 'bury':
      return { type: 'task-failed', fields: { uuid, ...errorFields(settlement.error) } };
    case 'release':
      return rejectedEvent(uuid, true);
    case 'drop':
      return null;
  }
}

const rejectedEvent = (uuid: string, requeue: boolean): TaskEvent => ({
  type: 'task-rejected',
  fields: { uuid, requeue },
});

/** As Python shows an exception: `ValueError('boom')`. */
function errorFields({ type, message, traceback }: ErrorRecord): Record<string, string> {
  const text = shorten(message).replaceAll('\\', '\\\\').replaceAll("'", "\\'");
  return { exception: `${type}('${text.replaceAll('\n', '\\n')}')`, traceback };
}
