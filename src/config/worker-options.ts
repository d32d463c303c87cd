import { WORKER_TABLE } from '../options/worker-table.ts';
import type { NameOf } from './options.ts';
import type { ResolvedWorkerOptions, WorkerOptions } from './options.generated.ts';
import { resolveSection, type Resolution, type Section } from './resolve-section.ts';

export type { ResolvedWorkerOptions, WorkerOptions };

/** With a shorter lease a garbage collection or a slow commit looks like a death. */
const SHORT_LEASE_MS = 3_000;

export const WORKER_SECTION: Section<ResolvedWorkerOptions> = {
  name: 'worker',
  table: WORKER_TABLE,
  conflicts: [
    {
      options: ['lease', 'beat'],
      sentence:
        '`worker.lease` is at least three times `worker.beat`: two lost beats are not a death.',
      // Two beats may be lost before any process may presume this one dead.
      isBroken: ({ leaseMs, beatMs }) => leaseMs < 3 * beatMs,
      problem: ({ leaseMs, beatMs }) =>
        `a lease of ${leaseMs} ms has no room for three beats of ${beatMs} ms`,
      hint: ({ beatMs }, nameOf) =>
        `Raise \`${nameOf('lease')}\` to '${3 * beatMs}ms', or lower \`${nameOf('beat')}\`.`,
    },
  ],
  oddities: [
    {
      sentence: '`worker.lease` under 3 s',
      isOdd: ({ leaseMs }) => leaseMs < SHORT_LEASE_MS,
      warning: nameOf =>
        `\`${nameOf('lease')}\` is under 3 s: a short pause of a living process gives its tasks to others`,
    },
  ],
};

export function resolveWorkerOptions(
  given: WorkerOptions = {},
  nameOf?: NameOf,
): Resolution<ResolvedWorkerOptions> {
  return resolveSection(WORKER_SECTION, given, nameOf);
}
