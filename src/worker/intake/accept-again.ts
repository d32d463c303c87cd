import { isUnavailable } from '../../errors/error.ts';
import { readLetterBeside, type LetterBeside } from '../../ledger/letter-beside.ts';
import type { LedgerReads } from '../../ledger/ledger-reads.ts';
import type { BegunTask, Ledger } from '../../ledger/ledger.ts';
import type { Runtime } from '../../runtime/runtime.ts';
import { NO_KEYS, type Keyring } from '../../task/keyring.ts';
import { errorRecord } from '../run/error-record.ts';
import { buried, type Settlement } from '../run/settlement.ts';

export interface AcceptAgainDeps {
  readonly ledger: Pick<Ledger, 'park'>;
  readonly reads: Pick<LedgerReads, 'inspect'>;
  readonly runtime: Runtime;
  readonly keyring?: Keyring;
}

/** How long to wait before asking a store that is away again. */
const STORE_RETRY_MS = 1_000;

/**
 * A dead-lettered message that is stored beside the id it came with, and was brought back: it is judged again, and if it may
 * run now the ledger has it under that id before the letter ends. Its age does not count: the operator who brings it back
 * vouches for it. Null: the task is no such letter.
 */
export function acceptAgain(task: BegunTask, deps: AcceptAgainDeps): Promise<Settlement> | null {
  const letter = readLetterBeside(task.envelope);
  if (letter === null) return null;
  return accept(letter, deps).catch((error: unknown): Settlement => {
    deps.runtime.log.warn({ error, task: task.id }, 'a dead letter could not be accepted again');
    if (isUnavailable(error)) return { kind: 'release', delayMs: STORE_RETRY_MS };
    return { kind: 'bury', reason: 'ERR_INVARIANT', error: errorRecord(error) };
  });
}

async function accept(
  { message, isOfLedger }: LetterBeside,
  { ledger, reads, keyring = NO_KEYS }: AcceptAgainDeps,
): Promise<Settlement> {
  const { id, name, queue } = message;
  const refusal = keyring.refusalOf(message);
  if (refusal !== null) return buried('ERR_DIGEST', refusal);
  const stillTaken = (): Settlement =>
    buried('ERR_DIGEST', `another task still has the id ${id}; retry when that is forgotten`);
  // Otherwise its message would be stored under the id of the letter that is about to end.
  if (isOfLedger && (await reads.inspect(id)) !== null) return stillTaken();
  // If another task has the id, the ledger stores the message as a separate letter.
  await ledger.park([{ envelope: message, delayMs: null }]);
  if (isOfLedger) {
    const found = await reads.inspect(id);
    if (found !== null && (found.name !== name || found.queue !== queue)) return stillTaken();
  }
  const why = `accepted again, as ${id}`;
  return { kind: 'commit', outcome: { kind: 'discarded', why }, value: 'null' };
}
