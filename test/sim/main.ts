import { parseArgs } from 'node:util';
import type { Violation } from './checker.ts';
import { FAULT_POINTS, type FaultPointName } from '../../src/runtime/runtime.ts';
import { isOfSchedules, MUTANTS, type Mutant } from './mutants.ts';
import { drawPlan } from './plan.ts';
import { runPlan, type RunReport } from './run-plan.ts';
import { topologyOf } from './topology.ts';
import { Totals } from './totals.ts';

/** A mutant that survives this many seeds was not caught. */
const MUTANT_SEEDS = 400;
/** With this many runs the whole claim is tested: all mutants, and every gap reached. */
const FULL_RUNS = 500;
/** More runs than this in which too little happened mean that the plans are at fault. */
const INVALID_SHARE = 0.02;

interface Options {
  readonly seed: number;
  readonly runs: number;
  readonly hasMutants: boolean;
  readonly isTraced: boolean;
}

function readOptions(args: string[]): Options {
  const { values } = parseArgs({
    args,
    options: {
      seed: { type: 'string', default: '1' },
      runs: { type: 'string', default: '2000' },
      mutants: { type: 'boolean', default: false },
      trace: { type: 'boolean', default: false },
    },
  });
  const runs = Number(values.runs);
  const seed = Number(values.seed);
  if (!Number.isSafeInteger(seed) || !Number.isSafeInteger(runs) || runs < 0) {
    throw new TypeError('--seed and --runs are whole numbers');
  }
  return { seed, runs, hasMutants: values.mutants || runs >= FULL_RUNS, isTraced: values.trace };
}

const say = (line: string): void => void process.stdout.write(`${line}\n`);

function sayViolations(seed: number, violations: readonly Violation[]): void {
  say(`seed ${seed} (${topologyOf(seed)}): ${violations.length} violations`);
  for (const { kind, what } of violations.slice(0, 10)) say(`  ${kind}: ${what}`);
  say(`  replay: npm run sim -- --seed ${seed} --runs 1 --trace`);
}

/** Runs seeds until as many were valid as asked for. */
async function runHealthy(options: Options, totals: Totals): Promise<void> {
  const trace = options.isTraced
    ? (atMs: number, line: string) => say(`${atMs.toFixed(1).padStart(10)}  ${line}`)
    : undefined;
  for (let seed = options.seed; totals.runs < options.runs; seed++) {
    const report = await runPlan(drawPlan(seed), null, trace);
    totals.add(seed, report);
    if (report.violations.length > 0) sayViolations(seed, report.violations);
    if (options.runs === 1) say(`seed ${seed} (${topologyOf(seed)}) history ${report.digest}`);
    if (options.runs === 1 && report.invalid !== null) return;
  }
}

/** The seeds a mutant survived, and what gave it away. */
async function hunt(
  mutant: Mutant,
  firstSeed: number,
): Promise<{ seeds: number; report: RunReport | null }> {
  for (let tried = 0; tried < MUTANT_SEEDS; tried++) {
    const plan = drawPlan(firstSeed + tried);
    if (isOfSchedules(mutant) && plan.errands.length === 0) continue;
    const report = await runPlan(plan, mutant);
    if (report.violations.length === 0) continue;
    // What goes wrong without the mutant too does not give it away.
    const healthy = await runPlan(plan);
    if (healthy.violations.length === 0) return { seeds: tried + 1, report };
  }
  return { seeds: MUTANT_SEEDS, report: null };
}

async function runMutants(firstSeed: number): Promise<number> {
  let caught = 0;
  for (const mutant of MUTANTS) {
    const { seeds, report } = await hunt(mutant, firstSeed);
    const [first] = report?.violations ?? [];
    if (first !== undefined) caught += 1;
    const verdict = first === undefined ? 'NOT CAUGHT' : `caught, ${first.kind}: ${first.what}`;
    say(`mutant ${mutant.name.padEnd(30)} ${String(seeds).padStart(3)} seeds  ${verdict}`);
  }
  return caught;
}

/**
 * Python workers are not simulated; a real one runs in test/interop/celery-chords.test.ts. The ledger in memory takes
 * every step at once; steps that take two calls are killed in test/chaos/in-part.test.ts. Moves are not simulated; see
 * test/chaos/move.test.ts.
 */
const ELSEWHERE: ReadonlySet<FaultPointName> = new Set([
  'chord.reported-not-acked',
  'ledger.begun-in-part',
  'ledger.committed-in-part',
  'refusals.published-not-handed-back',
  'move.messages-in-not-acked',
  'move.tasks-in-not-ended',
  'move.mid-end',
  'move.emptied-not-forgotten',
]);

async function main(): Promise<number> {
  const options = readOptions(process.argv.slice(2));
  // Errors are created by the thousand here, and their stacks are read only when debugging.
  if (!options.isTraced) Error.stackTraceLimit = 0;
  const totals = new Totals();
  await runHealthy(options, totals);
  const caught = options.hasMutants ? await runMutants(options.seed) : 0;
  for (const line of totals.lines()) say(line);
  if (options.hasMutants) say(`mutants caught ${caught}/${MUTANTS.length}`);
  const missed = FAULT_POINTS.filter(point => !totals.points.has(point) && !ELSEWHERE.has(point));
  const isFull = options.runs >= FULL_RUNS;
  if (isFull && missed.length > 0) say(`fault points never reached: ${missed.join(', ')}`);
  if (isFull && totals.missed.length > 0)
    say(`faults that never struck: ${totals.missed.join(', ')}`);
  const isComplete = !isFull || missed.length + totals.missed.length === 0;
  const isValid = totals.invalid <= Math.max(1, totals.runs * INVALID_SHARE);
  const areCaught = !options.hasMutants || caught === MUTANTS.length;
  return totals.violations === 0 && isComplete && isValid && areCaught ? 0 : 1;
}

process.exitCode = await main();
