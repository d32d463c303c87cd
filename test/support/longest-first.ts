import { relative } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * Files that take long because processes die, leases end and servers start in them. A file that
 * begins last and runs alone leaves every other core idle, so these begin first, the longest of all
 * in front. The order is a hint and nothing depends on it: a name that is missing costs seconds.
 */
const LONG: readonly string[] = [
  'integration/dev.test.ts',
  'interop/celery-fleet.test.ts',
  'interop/celery-canvas.test.ts',
  'integration/plans.test.ts',
  'integration/dev-page.test.ts',
  'chaos/separate-door.test.ts',
  'integration/tiers.test.ts',
  'chaos/fault-points.test.ts',
  'chaos/sleepers.test.ts',
  'chaos/relay-faults.test.ts',
  'integration/end-to-end.test.ts',
  'integration/cli.test.ts',
  'integration/cli-tasks.test.ts',
  'isolates/isolates.test.ts',
  'isolates/start.test.ts',
  'isolates/recycling.test.ts',
  'conformance/redis-cluster-ledger.test.ts',
  'conformance/pglite.test.ts',
  'chaos/torture.test.ts',
];

/** The long ones first, then the rest as vitest would have it. */
export class LongestFirst extends BaseSequencer {
  override async sort(specs: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(specs);
    return sorted.toSorted((a, b) => this.#position(a) - this.#position(b));
  }

  #position({ moduleId }: TestSpecification): number {
    const position = LONG.indexOf(relative(`${this.ctx.config.root}/test`, moduleId));
    return position === -1 ? LONG.length : position;
  }
}
