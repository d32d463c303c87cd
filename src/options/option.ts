import { outlastError } from '../errors/error.ts';

/**
 * One option: what it takes, what it is when nothing is given, and the sentence people read about it. Types, checks, flags,
 * variables and reference pages are made from these rows; the default of an option is written nowhere else.
 */
interface Described {
  /** What it does, for editors, `--help` and the reference pages. */
  readonly sentence: string;
  /** What only the reference page adds: links, and what is too long for an editor. */
  readonly more?: string;
  /** What follows for `default` on the page and in editors, where the value alone does not say it. */
  readonly defaultNote?: string;
  /** The TypeScript type that a user gives, where the kind does not say it. */
  readonly type?: string;
  /** The TypeScript type of what a stage or contract gets, where the kind does not say it. */
  readonly resolved?: string;
  /** It must be given. */
  readonly isRequired?: true;
  /** The variable, of an option that belongs to no stage. Those of stages follow from their names. */
  readonly env?: string;
}

/** Whole numbers, and `seconds`: a number whose name ends in `Seconds`, which need not be whole. */
export interface NumberRow extends Described {
  readonly kind: 'integer' | 'seconds';
  readonly default?: number;
  readonly min: number;
  readonly max: number;
  /** 0 stands for none: stages get null. */
  readonly zeroIsNone?: true;
}

/** Text with a unit: `'30s'`. */
export interface DurationRow extends Described {
  readonly kind: 'duration';
  readonly default?: `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`;
  /** The default where one process has the embedded database for itself. */
  readonly embedded?: `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`;
  readonly min?: `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`;
  readonly max?: `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`;
}

export interface ChoiceRow extends Described {
  readonly kind: 'choice';
  readonly choices: readonly string[];
  readonly default: string;
  /** The default where there are signing keys. */
  readonly whenSigning?: string;
  /** The public name of the type of its values, and what is said about that. */
  readonly typeName?: string;
  readonly typeSentence?: string;
}

/** `path`: the empty text is none. `name`: safe for every store. `key`: a text that becomes a key of a store. */
export interface TextRow extends Described {
  readonly kind: 'path' | 'host' | 'name' | 'key' | 'text';
  readonly default?: string;
}

export interface FlagRow extends Described {
  readonly kind: 'boolean';
  readonly default?: boolean;
}

/** `list` and `record` have the type that their row names; `queues` are names, or names with weights. */
export interface ListRow extends Described {
  readonly kind: 'queues' | 'list' | 'record';
  readonly default?: readonly string[] | Readonly<Record<never, never>>;
}

/** `instant`: a Date. `moment`: a Date, or a length from now. The others have the type that their row names. */
export interface ValueRow extends Described {
  readonly kind: 'instant' | 'moment' | 'schema' | 'function' | 'url' | 'value';
  readonly default?: undefined;
}

/** Options within an option. */
export interface GroupRow extends Described {
  readonly kind: 'group';
  readonly default?: undefined;
  readonly members: OptionTable;
  /** The public name of the type, and what is said about that. */
  readonly typeName?: string;
  readonly typeSentence?: string;
  /** A type whose members may be given beside these. */
  readonly extends?: string;
  /** True or false may stand for the whole. */
  readonly orFlag?: true;
}

export type OptionRow =
  | NumberRow
  | DurationRow
  | ChoiceRow
  | TextRow
  | FlagRow
  | ListRow
  | ValueRow
  | GroupRow;

export type OptionKind = OptionRow['kind'];

/** Options by their names, in the order in which people read them. */
export type OptionTable = Readonly<Record<string, OptionRow>>;

/** The name under which a stage or a contract has the value: inside, times are milliseconds. */
export function resolvedName(key: string, { kind }: Pick<OptionRow, 'kind'>): string {
  if (kind === 'duration') return `${key}Ms`;
  return kind === 'seconds' ? `${key.replace(/Seconds$/, '')}Ms` : key;
}

type RowOf<K extends OptionKind, R extends OptionRow = OptionRow> = R extends OptionRow
  ? [K & R['kind']] extends [never]
    ? never
    : R
  : never;

/** The row of an option that code knows by its name, of the kind that it takes it for. */
export function rowOf<K extends OptionKind>(
  table: OptionTable,
  key: string,
  ...kinds: readonly K[]
): RowOf<K> {
  const row = table[key];
  if (row !== undefined && (kinds as readonly OptionKind[]).includes(row.kind))
    return row as RowOf<K>;
  throw unlike(`there is no option \`${key}\` of the kind ${kinds.join(' or ')}`);
}

export function defaultNumber(table: OptionTable, key: string): number {
  const { default: value } = rowOf(table, key, 'integer', 'seconds');
  if (value !== undefined) return value;
  throw unlike(`the option \`${key}\` has no default`);
}

export function defaultDuration(
  table: OptionTable,
  key: string,
): NonNullable<DurationRow['default']> {
  const { default: value } = rowOf(table, key, 'duration');
  if (value !== undefined) return value;
  throw unlike(`the option \`${key}\` has no default`);
}

const unlike = (message: string): Error =>
  outlastError('ERR_INVARIANT', {
    message,
    hint: 'This is a bug in Outlast: please report it.',
    fields: {},
  });

/** The variable of an option that belongs to no stage. */
export function envIn(table: OptionTable, key: string): string {
  return table[key]?.env ?? '';
}

/** The defaults of a table, for those options that have one. */
export function defaultsOf(table: OptionTable): Readonly<Record<string, unknown>> {
  const rows = Object.entries(table).filter(([, row]) => row.default !== undefined);
  return Object.freeze(
    Object.fromEntries(
      rows.map(([key, row]) => [
        key,
        typeof row.default === 'object' ? Object.freeze(row.default) : row.default,
      ]),
    ),
  );
}
