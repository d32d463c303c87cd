import { SEND_TABLE, type SendRow } from '../options/send-table.ts';
import { safeKey } from './names.ts';
import type { InheritedOptions, TravellingOptions } from './options.generated.ts';

type Loose = Readonly<Record<string, unknown>>;

interface Travelling {
  readonly key: keyof TravellingOptions;
  readonly header: string;
  readonly hasSignedPosition: boolean;
  readonly isInherited: boolean;
}

const SEND_ROWS: readonly (readonly [string, SendRow])[] = Object.entries(SEND_TABLE);

/** Options of a send that travel unchanged: from the call to the envelope, to a header of the message, and back. */
export const TRAVELLING: readonly Travelling[] = SEND_ROWS.flatMap(([key, row]) =>
  row.header === undefined
    ? []
    : [
        {
          key: key as keyof TravellingOptions,
          header: row.header,
          hasSignedPosition: row.hasSignedPosition ?? false,
          isInherited: row.isInherited ?? false,
        },
      ],
);

const INHERITED = TRAVELLING.filter(({ isInherited }) => isInherited);
const LISTED = TRAVELLING.filter(({ hasSignedPosition }) => !hasSignedPosition);

/** Adds the given ones, each checked as a key of a store. */
export function addTravelling(made: Loose, given: TravellingOptions): void {
  const written = made as Record<string, unknown>;
  for (const { key } of TRAVELLING) {
    const value = given[key];
    if (value !== undefined) written[key] = safeKey(value, key);
  }
}

/** The options that follow-ups inherit from a task. */
export function inheritedOf(options: InheritedOptions): InheritedOptions {
  const found: Record<string, unknown> = {};
  for (const { key } of INHERITED) {
    const value = (options as TravellingOptions)[key];
    if (value !== undefined) found[key] = value;
  }
  return found;
}

/** For a signature: the options that have no position of their own there, by name. Empty for most tasks. */
export function listedOf(
  options: TravellingOptions,
  rows: readonly Travelling[] = LISTED,
): readonly (readonly [string, string])[] {
  return rows.flatMap(({ key }) => {
    const value = options[key];
    return value === undefined ? [] : [[key, value] as const];
  });
}
