// @ts-check
/** Reads what workers tell about themselves, see `workers/probe.mjs`. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const LOOK_EVERY_MS = 20;
const PATIENCE_MS = 300_000;

/** @typedef {{ at: number, count: number, cpuMicros: number }} Line */

/** The lines of each process. @param {string} folder @returns {Line[][]} */
function readTallies(folder) {
  return readdirSync(folder)
    .filter(name => name !== 'notes')
    .map(name =>
      readFileSync(join(folder, name), 'utf8')
        .split('\n')
        .filter(line => line !== '')
        .map(line => {
          const [at = 0, count = 0, cpuMicros = 0] = line.split(' ').map(Number);
          return { at, count, cpuMicros };
        }),
    );
}

/**
 * Waits until so many tasks have run in all, and tells how fast the last four fifths of them were: before that
 * processes start, connect and warm up.
 * @param {string} folder
 * @param {number} count
 */
export async function untilRan(folder, count) {
  const startedAt = performance.now();
  for (;;) {
    const tallies = readTallies(folder);
    const ran = tallies.reduce((sum, lines) => sum + (lines.at(-1)?.count ?? 0), 0);
    if (ran >= count) return speedOf(tallies, count);
    if (performance.now() - startedAt > PATIENCE_MS)
      throw new Error(`${ran} of ${count} tasks ran in ${PATIENCE_MS} ms`);
    await delay(LOOK_EVERY_MS);
  }
}

/**
 * @param {Line[][]} tallies
 * @param {number} count
 */
function speedOf(tallies, count) {
  const steps = tallies
    .flatMap((lines, process) =>
      lines.map((line, at) => ({
        ...line,
        process,
        more: line.count - (lines[at - 1]?.count ?? 0),
      })),
    )
    .sort((a, b) => a.at - b.at);
  let ran = 0;
  const from = steps.findIndex(({ more }) => (ran += more) >= count / 5);
  const first = /** @type {(typeof steps)[number]} */ (steps[from]);
  const last = /** @type {(typeof steps)[number]} */ (steps.at(-1));
  const cpuMicros = tallies.map((lines, process) => {
    const before = steps.slice(0, from + 1).findLast(step => step.process === process);
    return (lines.at(-1)?.cpuMicros ?? 0) - (before?.cpuMicros ?? 0);
  });
  return {
    perSecond: (count - ran) / ((last.at - first.at) / 1000),
    cpuMicrosPerTask: cpuMicros.reduce((sum, one) => sum + one, 0) / (count - ran),
  };
}

/**
 * @typedef {{ at: number, pid: number, words: string[] }} Note
 * @param {string} folder
 * @returns {Note[]}
 */
export function readNotes(folder) {
  const file = join(folder, 'notes');
  if (!existsSync(file)) return [];
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter(line => line !== '')
    .map(line => {
      const [at = '', pid = '', ...words] = line.split(' ');
      return { at: Number(at), pid: Number(pid), words };
    });
}

/**
 * Waits for a note. @template T
 * @param {string} folder
 * @param {(notes: Note[]) => T | undefined} find
 * @returns {Promise<T>}
 */
export async function untilNoted(folder, find, patienceMs = 60_000) {
  const startedAt = performance.now();
  for (;;) {
    const found = find(readNotes(folder));
    if (found !== undefined) return found;
    if (performance.now() - startedAt > patienceMs)
      throw new Error('what was waited for has not happened');
    await delay(5);
  }
}
