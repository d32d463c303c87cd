import {
  SECTION_NAMES,
  type OptionKind,
  type OptionRule,
  type Section,
  type SectionName,
} from './options.ts';
import { RELAY_SECTION } from './relay-options.ts';
import { RESURRECTOR_SECTION } from './resurrector-options.ts';
import { WORKER_SECTION } from './worker-options.ts';

/**
 * One option under all its names. Flags, variables and the reference page are made from these rows.
 */
export interface OptionRow {
  readonly section: SectionName;
  /** As in code and config files: `batchSize`. */
  readonly key: string;
  /** As on the command line: `--batch-size`. */
  readonly flag: string;
  /** As in the environment: `OUTLAST_RELAY_BATCH_SIZE`. */
  readonly env: string;
  readonly kind: OptionKind;
  /** The default as a flag or variable would spell it. */
  readonly default: string;
  readonly sentence: string;
  /** What values are taken, for people. */
  readonly range: string;
}

const kebab = (key: string): string =>
  key.replaceAll(/[A-Z]/g, letter => `-${letter.toLowerCase()}`);
const snake = (key: string): string => kebab(key).replaceAll('-', '_').toUpperCase();

export const flagOf = (key: string): string => `--${kebab(key)}`;
export const envOf = (section: SectionName, key: string): string =>
  `OUTLAST_${section.toUpperCase()}_${snake(key)}`;

function rangeOf(rule: OptionRule): string {
  switch (rule.kind) {
    case 'integer':
    case 'seconds':
    case 'duration':
      return `${rule.min} to ${rule.max}`;
    case 'choice':
      return rule.choices.join(' or ');
    case 'path':
      return 'a path';
    case 'queues':
      return 'name, name=weight; comma between';
  }
}

function rowsOf<O>(section: Section<O>): readonly OptionRow[] {
  const rules: readonly [string, OptionRule][] = Object.entries(section.rules);
  const defaults = section.defaults as Readonly<Record<string, unknown>>;
  return Object.freeze(
    rules.map(([key, rule]) =>
      Object.freeze({
        section: section.name,
        key,
        flag: flagOf(key),
        env: envOf(section.name, key),
        kind: rule.kind,
        default: String(defaults[key]) || 'none',
        sentence: rule.sentence,
        range: rangeOf(rule),
      }),
    ),
  );
}

/** Every option of every stage. */
export const OPTION_TABLE: Readonly<Record<SectionName, readonly OptionRow[]>> = Object.freeze({
  relay: rowsOf(RELAY_SECTION),
  worker: rowsOf(WORKER_SECTION),
  resurrector: rowsOf(RESURRECTOR_SECTION),
});

export const ALL_OPTIONS: readonly OptionRow[] = SECTION_NAMES.flatMap(name => OPTION_TABLE[name]);
