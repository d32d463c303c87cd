import {
  ADMISSION_KINDS,
  ALL,
  type AdmissionKind,
  type AdmissionPattern,
} from '../config/admission.ts';
import type { Rate } from '../task/admission-rule.ts';
import type { Envelope, EnvelopeOptions, OwnAdmission } from '../task/envelope.ts';
import { globPattern } from '../task/glob.ts';
import { MARKS, hasMark } from '../task/marks.ts';
import type { Contract } from '../task/contract.ts';
import { decodeBody, inputFromCall } from '../task/input.ts';
import { safeKey } from '../task/names.ts';
import { readOptions } from '../task/read-options.ts';

/** One limit that a task is under. */
export interface Limit {
  readonly key: string;
  readonly rate: Rate | null;
  readonly concurrency: number | null;
}

/** What decides which limits a task is under. */
export interface Subject {
  readonly name: string;
  readonly queue: string;
  readonly tenant?: EnvelopeOptions['tenant'] | undefined;
  readonly admission?: EnvelopeOptions['admission'] | undefined;
}

/** Finds the limits of a task: its own, for tenant, task and queue the most specific one of the configuration, and that of all. */
export class LimitBook {
  /** True: the configuration limits nothing. */
  readonly isEmpty: boolean;
  /** True: some limit of the configuration is a concurrency limit. */
  readonly limitsRuns: boolean;
  readonly #all: Limit | null;
  readonly #patterns: ReadonlyMap<AdmissionKind, readonly Matcher[]>;

  constructor(patterns: readonly AdmissionPattern[]) {
    this.isEmpty = patterns.length === 0;
    this.limitsRuns = patterns.some(({ rule }) => rule.concurrency !== null);
    const all = patterns.find(({ kind }) => kind === 'all');
    this.#all = all === undefined ? null : { key: ALL, ...all.rule };
    this.#patterns = new Map(
      ADMISSION_KINDS.map(kind => [kind, matchersOf(patterns.filter(one => one.kind === kind))]),
    );
  }

  /**
   * The most specific first: a task that its own limit refuses takes nothing from the shared ones. A limit of the
   * configuration replaces the task's own limit with the same key.
   */
  of({ name, queue, tenant, admission }: Subject): readonly Limit[] {
    const limits = [
      ownLimit(name, admission),
      this.#find('tenant', tenant),
      this.#find('task', name),
      this.#find('queue', queue),
      this.#all,
    ].filter(limit => limit !== null);
    return limits.filter(({ key }, at) => !limits.some((other, n) => n > at && other.key === key));
  }

  #find(kind: AdmissionKind, name: string | undefined): Limit | null {
    if (name === undefined) return null;
    const found = this.#patterns.get(kind)?.find(({ matches }) => matches(name));
    return found === undefined ? null : { key: `${kind}:${name}`, ...found.rule };
  }
}

interface Matcher {
  readonly rule: AdmissionPattern['rule'];
  readonly matches: (name: string) => boolean;
}

/** Names before patterns, and more specific patterns first. */
function matchersOf(patterns: readonly AdmissionPattern[]): readonly Matcher[] {
  const isPattern = (name: string): boolean => /[*?]/.test(name);
  const said = (name: string): number => name.replaceAll(/[*?]/g, '').length;
  const order = ({ name }: AdmissionPattern): number =>
    isPattern(name) ? said(name) : Number.MAX_SAFE_INTEGER;
  return patterns
    .toSorted((a, b) => order(b) - order(a))
    .map(({ name, rule }) => {
      if (!isPattern(name)) return { rule, matches: given => given === name };
      const pattern = globPattern(name);
      return { rule, matches: given => pattern.test(given) };
    });
}

function ownLimit(name: string, own: Subject['admission']): Limit | null {
  if (own === undefined) return null;
  const key = own.key === undefined ? `task:${name}` : `task:${name}:${own.key}`;
  return { key, rate: own.rate ?? null, concurrency: own.concurrency ?? null };
}

/** True: the task must pass a rate before it is published. Found in the bytes, without parsing: most tasks have no mark. */
export function isLimited(options: Uint8Array): boolean {
  return hasMark(options, MARKS.limited);
}

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
