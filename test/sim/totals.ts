import { FAULT_KINDS, type FaultKind } from './faults.ts';
import type { RunReport } from './run-plan.ts';

/** The figures of many runs. */
export class Totals {
  runs = 0;
  invalid = 0;
  violations = 0;
  readonly points: Set<string> = new Set();
  readonly #faults = new Map<FaultKind, number>();
  #firstSeed: number | null = null;
  #lastSeed = 0;
  #tasks = 0;
  #executions = 0;
  #reruns = 0;
  #slots = 0;
  #events = 0;
  #virtualMs = 0;
  readonly #startedAt = performance.now();

  add(seed: number, report: RunReport): void {
    this.#firstSeed ??= seed;
    this.#lastSeed = seed;
    this.violations += report.violations.length;
    // A run in which little happened proves nothing, but a violation in it still counts.
    if (report.invalid !== null) {
      this.invalid += 1;
      return;
    }
    this.runs += 1;
    this.#tasks += report.tasks;
    this.#executions += report.executions;
    this.#reruns += report.reruns;
    this.#slots += report.slots;
    this.#events += report.events;
    this.#virtualMs += report.virtualMs;
    for (const point of report.points.keys()) this.points.add(point);
    for (const [kind, count] of report.faults)
      this.#faults.set(kind, (this.#faults.get(kind) ?? 0) + count);
  }

  /** Kinds of faults that no run has suffered. */
  get missed(): readonly FaultKind[] {
    return FAULT_KINDS.filter(kind => !this.#faults.has(kind));
  }

  lines(): string[] {
    const number = (value: number): string => value.toLocaleString('en');
    const total = [...this.#faults.values()].reduce((sum, count) => sum + count, 0);
    const byKind = FAULT_KINDS.map(kind => `${kind} ${number(this.#faults.get(kind) ?? 0)}`).join(
      ', ',
    );
    const hours = (this.#virtualMs / 3_600_000).toFixed(1);
    const seconds = ((performance.now() - this.#startedAt) / 1_000).toFixed(1);
    const bound =
      this.#tasks === 0
        ? ''
        : `, under ${(3 / this.#tasks).toExponential(1)} per task with 95 % confidence`;
    return [
      `runs ${number(this.runs)} (seeds ${this.#firstSeed}..${this.#lastSeed}, ${this.invalid} invalid), ${seconds} s, ${number(this.#events)} events`,
      `tasks ${number(this.#tasks)}, executions ${number(this.#executions)} of which ${number(this.#reruns)} again, slots ${number(this.#slots)}, ${hours} virtual hours`,
      `faults ${number(total)}: ${byKind}`,
      `violations ${this.violations}${this.violations === 0 ? bound : ''}`,
    ];
  }
}
