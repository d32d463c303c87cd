import {
  readAdmissionRule,
  type AdmissionRule,
  type AdmissionRuleOptions,
} from '../task/admission-rule.ts';
import { asRecord, dropUndefined, rangeError, refuseUnknown } from './options.ts';
import { nearest } from '../options/nearest.ts';

/** What a pattern may match, the most specific first. */
export const ADMISSION_KINDS = ['tenant', 'task', 'queue'] as const;
export type AdmissionKind = (typeof ADMISSION_KINDS)[number] | 'all';

/** One limit, and one key, for all tasks together. */
export const ALL = '*';

/** Limits by pattern: `*`, `tenant:*`, `tenant:acme`, `queue:billing`, `task:shop.*`. */
export type AdmissionOptions = Readonly<Record<string, AdmissionRuleOptions>>;

/** One limit of the configuration. */
export interface AdmissionPattern {
  readonly kind: AdmissionKind;
  /** A name, or with `*` and `?` a pattern of names. */
  readonly name: string;
  readonly rule: AdmissionRule;
}

const HINT = `Write 'tenant:*', 'queue:billing' or 'task:shop.charge', or '*' for all tasks together.`;

/** Checks the admission section of a config. */
export function readAdmission(value: unknown): readonly AdmissionPattern[] {
  const given = dropUndefined(asRecord(value ?? {}, 'admission'));
  return Object.freeze(
    Object.entries(given).map(([pattern, rule]) => {
      const option = `admission['${pattern}']`;
      const { kind, name } = splitPattern(pattern, option);
      const refuse = (keys: readonly string[], known: readonly string[]): void =>
        refuseUnknown(keys, known, key => `${option}.${key}`);
      return Object.freeze({ kind, name, rule: readAdmissionRule(rule, option, refuse) });
    }),
  );
}

function splitPattern(pattern: string, option: string): Pick<AdmissionPattern, 'kind' | 'name'> {
  if (pattern === ALL) return { kind: 'all', name: ALL };
  const at = pattern.indexOf(':');
  const [kind, name] = [pattern.slice(0, Math.max(at, 0)), pattern.slice(at + 1)];
  if ((ADMISSION_KINDS as readonly string[]).includes(kind) && name !== '')
    return { kind: kind as AdmissionKind, name };
  const near = nearest(kind, ADMISSION_KINDS);
  const isMeant = at > 0 && name !== '' && near !== null;
  throw rangeError(
    option,
    'names nothing that can be limited',
    isMeant ? `Did you mean \`${near}:${name}\`?` : HINT,
  );
}
