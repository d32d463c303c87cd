import type { BegunTask } from '../../ledger/ledger.ts';
import { callKey, type CallKey } from '../../task/call-key.ts';
import { decodeBody, inputFromCall } from '../../task/input.ts';
import type { Handler } from '../handler.ts';
import { migrateInput } from './migrate-input.ts';

/** The key of a task's call; null if the task is not idempotent. Throws when its input cannot be read. */
export async function callKeyOf(task: BegunTask, handler: Handler): Promise<CallKey | null> {
  const { idempotent } = handler.task.contract;
  if (idempotent === null) return null;
  const { name, version, body } = task.envelope;
  const input = inputFromCall(handler.task.contract, decodeBody(body));
  const current = idempotent.key === null ? null : await migrateInput(task, handler, input);
  return callKey(idempotent, { name, version, input }, current);
}
