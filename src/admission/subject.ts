import type { Contract } from '../task/contract.ts';
import type { Envelope, OwnAdmission } from '../task/envelope.ts';
import { decodeBody, inputFromCall } from '../task/input.ts';
import { safeKey } from '../task/names.ts';
import { readOptions } from '../task/read-options.ts';
import type { Subject } from './limits.ts';

/** The part of a contract's limits that travels, with the key of this input. */
export function ownAdmission(contract: Contract, input: unknown): OwnAdmission | undefined {
  const { admission } = contract;
  if (admission === null) return undefined;
  const { key, rate, concurrency } = admission;
  return {
    ...(key === null ? {} : { key: safeKey(key(input), 'admission.key') }),
    ...(rate === null ? {} : { rate }),
    ...(concurrency === null ? {} : { concurrency }),
  };
}

/** A task on its way. A task sent by Python or by another task carries no limits: they come from the contract, if known. */
export function subjectOf(envelope: Envelope, contract: Contract | undefined): Subject {
  const { name, queue } = envelope;
  const { tenant, admission } = readOptions(envelope);
  return { name, queue, tenant, admission: admission ?? derived(envelope, contract) };
}

/** What its options say of its limits; nothing where they cannot be read. */
export function readAdmissionOf(options: Uint8Array): Pick<Subject, 'tenant' | 'admission'> {
  try {
    const { tenant, admission } = readOptions({ options });
    return { tenant, admission };
  } catch {
    return {};
  }
}

function derived(envelope: Envelope, contract: Contract | undefined): OwnAdmission | undefined {
  if (contract === undefined || contract.admission === null) return undefined;
  try {
    return ownAdmission(contract, inputFromCall(contract, decodeBody(envelope.body)));
  } catch {
    // Input without a key does not match the contract, which its run finds out.
    return undefined;
  }
}
