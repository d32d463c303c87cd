import { outlastError, type OutlastError } from '../errors/error.ts';
import { durationMs, type Duration } from '../task/duration.ts';

/** The stages that have options of their own, in the order of a task's life. */
export const SECTION_NAMES = ['relay', 'worker', 'resurrector'] as const;
export type SectionName = (typeof SECTION_NAMES)[number];

interface NumberRule {
  /** `seconds` is a number whose key ends in `Seconds`; it need not be whole. */
  readonly kind: 'integer' | 'seconds';
  readonly min: number;
  readonly max: number;
  readonly sentence: string;
}

interface DurationRule {
  readonly kind: 'duration';
  readonly min: Duration;
  readonly max: Duration;
  readonly sentence: string;
}

interface ChoiceRule {
  readonly kind: 'choice';
  readonly choices: readonly string[];
  readonly sentence: string;
}

interface PathRule {
  readonly kind: 'path';
  readonly sentence: string;
}

interface QueuesRule {
  readonly kind: 'queues';
  readonly sentence: string;
}

/** How one option is checked, and the sentence people read about it. */
export type OptionRule = NumberRule | DurationRule | ChoiceRule | PathRule | QueuesRule;
export type OptionKind = OptionRule['kind'];

type RuleFor<V> = [V] extends [Duration]
  ? DurationRule
  : [V] extends [number]
    ? NumberRule
    : string extends V
      ? PathRule
      : [V] extends [string]
        ? ChoiceRule
        : QueuesRule;

/** A rule for every option, of the kind its type asks for. */
export type Rules<O> = { readonly [K in keyof O]-?: RuleFor<NonNullable<O[K]>> };
export type Defaults<O> = { readonly [K in keyof O]-?: NonNullable<O[K]> };

/** One stage's options: all that reading, checking and describing them needs. */
export interface Section<O> {
  readonly name: SectionName;
  readonly rules: Rules<O>;
  readonly defaults: Defaults<O>;
}

/** Options a stage may run on, and what a person should be told about them. */
export interface Resolution<R> {
  readonly options: R;
  readonly warnings: readonly string[];
}

/**
 * What an option is called where it was given: `relay.batchSize`, `--batch-size` or its variable.
 */
export type NameOf = (key: string) => string;

const nameInSection =
  (section: SectionName): NameOf =>
  key =>
    `${section}.${key}`;

export function rangeError(option: string, problem: string, hint: string): OutlastError {
  return outlastError('ERR_OPTION_RANGE', {
    message: `\`${option}\` ${problem}`,
    hint,
    fields: { option },
  });
}

/** A value as it stood in the source, short enough for a message. */
export function shown(value: unknown): string {
  const text = typeof value === 'string' ? JSON.stringify(value) : String(value);
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}

/** The options as a record, or `ERR_OPTION_RANGE` for anything that has no named members. */
export function asRecord(value: unknown, option: string): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value as Readonly<Record<string, unknown>>;
  }
  throw rangeError(option, `is ${shown(value)}`, 'Write an object: { key: value }.');
}

/** A member that is `undefined` counts as not written, so conditional values need no spread. */
export function dropUndefined(given: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

/** Refuses keys nobody reads: a misspelt option that is ignored is found at night. */
export function refuseUnknown(
  given: readonly string[],
  known: readonly string[],
  nameOf: NameOf,
): void {
  for (const key of given) {
    if (!known.includes(key)) throw unknownOption(nameOf(key), key, known);
  }
}

function unknownOption(name: string, key: string, known: readonly string[]): OutlastError {
  const near = nearest(key, known);
  return outlastError('ERR_UNKNOWN_OPTION', {
    message: `\`${name}\` is not an option`,
    hint: near === null ? `Known options are ${known.join(', ')}.` : `Did you mean \`${near}\`?`,
    fields: { option: name, nearest: near },
  });
}

const plain = (word: string): string => word.toLowerCase().replaceAll(/[-_]/g, '');

/** The known word a person most likely meant, or null when none is near. */
export function nearest(word: string, known: readonly string[]): string | null {
  const target = plain(word);
  let best: string | null = null;
  // A third of the letters may be wrong; beyond that a guess misleads more than it helps.
  let bestDistance = Math.max(2, Math.floor(target.length / 3)) + 1;
  for (const candidate of known) {
    const distance = editDistance(target, plain(candidate));
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/** Insertions, deletions and replacements between two words (Levenshtein, one row at a time). */
export function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i++) {
    const next = [i];
    for (let j = 1; j <= to.length; j++) {
      const replaced = (row[j - 1] as number) + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] as number) + 1, (next[j - 1] as number) + 1));
    }
    row = next;
  }
  return row[to.length] as number;
}

/** Reads one stage's options: given ones checked, others from the defaults. */
export class OptionReader<O extends object> {
  readonly warnings: string[] = [];
  readonly nameOf: NameOf;
  readonly #section: Section<O>;
  readonly #given: Readonly<Record<string, unknown>>;

  constructor(section: Section<O>, given: O, nameOf: NameOf = nameInSection(section.name)) {
    this.nameOf = nameOf;
    this.#section = section;
    this.#given = dropUndefined(asRecord(given, section.name));
    refuseUnknown(Object.keys(this.#given), Object.keys(section.rules), nameOf);
  }

  /** The value given, or the default; nothing about it is checked yet. */
  raw(key: keyof O & string): unknown {
    return Object.hasOwn(this.#given, key) ? this.#given[key] : this.#section.defaults[key];
  }

  number(key: keyof O & string): number {
    const rule = this.#rule(key, 'integer', 'seconds');
    const value = this.raw(key);
    const isWell =
      typeof value === 'number' && (rule.kind === 'seconds' || Number.isInteger(value));
    if (isWell && value >= rule.min && value <= rule.max) return value;
    const what = rule.kind === 'integer' ? 'a whole number' : 'a number of seconds';
    throw rangeError(
      this.nameOf(key),
      `is ${shown(value)}`,
      `Use ${what} from ${rule.min} to ${rule.max}.`,
    );
  }

  /** Whole milliseconds of an option whose name says seconds. */
  secondsMs(key: keyof O & string): number {
    return Math.round(this.number(key) * 1_000);
  }

  /** Whole milliseconds: stores take integers. */
  durationMs(key: keyof O & string): number {
    const rule = this.#rule(key, 'duration');
    const value = this.raw(key);
    const ms = durationMs(value as Duration, this.nameOf(key));
    if (ms >= durationMs(rule.min, key) && ms <= durationMs(rule.max, key)) return Math.round(ms);
    throw rangeError(
      this.nameOf(key),
      `is ${shown(value)}`,
      `Use a duration from '${rule.min}' to '${rule.max}'.`,
    );
  }

  choice<K extends keyof O & string>(key: K): NonNullable<O[K]> {
    const rule = this.#rule(key, 'choice');
    const value = this.raw(key);
    if (rule.choices.includes(value as string)) return value as NonNullable<O[K]>;
    const choices = rule.choices.map(choice => `'${choice}'`).join(' or ');
    throw rangeError(this.nameOf(key), `is ${shown(value)}`, `Use ${choices}.`);
  }

  /** Null for the empty text: none. */
  path(key: keyof O & string): string | null {
    this.#rule(key, 'path');
    const value = this.raw(key);
    if (typeof value === 'string' && !value.includes('\0')) return value === '' ? null : value;
    throw rangeError(this.nameOf(key), `is ${shown(value)}`, "Write a path: '/tmp/alive'.");
  }

  /** Two options that are fine alone and wrong together. */
  conflict(keys: readonly (keyof O & string)[], problem: string, hint: string): never {
    throw outlastError('ERR_OPTIONS_CONFLICT', {
      message: problem,
      hint,
      fields: { options: keys.map(key => this.nameOf(key)) },
    });
  }

  /** Legal, but seldom meant. */
  warn(text: string): void {
    this.warnings.push(text);
  }

  #rule<K extends OptionKind>(
    key: keyof O & string,
    ...kinds: K[]
  ): Extract<OptionRule, { kind: K }> {
    const rule: OptionRule = this.#section.rules[key];
    if ((kinds as OptionKind[]).includes(rule.kind)) {
      return rule as Extract<OptionRule, { kind: K }>;
    }
    throw outlastError('ERR_INVARIANT', {
      message: `option \`${this.nameOf(key)}\` was read as ${kinds.join(' or ')}`,
      hint: 'This is a bug in Outlast: please report it.',
      fields: {},
    });
  }
}
