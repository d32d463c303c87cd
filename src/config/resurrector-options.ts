import { RESURRECTOR_TABLE } from '../options/resurrector-table.ts';
import type { NameOf } from './options.ts';
import type { ResolvedResurrectorOptions, ResurrectorOptions } from './options.generated.ts';
import { resolveSection, type Resolution, type Section } from './resolve-section.ts';

export type { ResolvedResurrectorOptions, ResurrectorOptions };

/** Recovery is promised within seconds; a longer interval is allowed, with a warning. */
const LONG_INTERVAL_MS = 10_000;

export const RESURRECTOR_SECTION: Section<ResolvedResurrectorOptions> = {
  name: 'resurrector',
  table: RESURRECTOR_TABLE,
  conflicts: [],
  oddities: [
    {
      sentence: '`resurrector.interval` over 10 s',
      isOdd: ({ intervalMs }) => intervalMs > LONG_INTERVAL_MS,
      warning: nameOf =>
        `\`${nameOf('interval')}\` is over 10 s: tasks of a lost host wait that much longer`,
    },
  ],
};

export function resolveResurrectorOptions(
  given: ResurrectorOptions = {},
  nameOf?: NameOf,
): Resolution<ResolvedResurrectorOptions> {
  return resolveSection(RESURRECTOR_SECTION, given, nameOf);
}
