// @ts-check
/**
 * What a task costs the server: processor time of PostgreSQL with all its processes, and bytes of its log. Both are nearly the
 * same however busy the machine is; rates are not. Processor time can be read on Linux only, and only of a local server.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** What `/proc` counts in: a hundredth of a second wherever Node.js runs on Linux. */
const TICK_MICROS = 10_000;
const FIELDS = { parent: 1, user: 11, system: 12, childrenUser: 13, childrenSystem: 14 };

/** @typedef {{ cpuMicros: number | null, logBytes: number }} Cost */

/** @param {import('pg').Pool} pool @returns {Promise<Cost>} */
export async function readCost(pool) {
  const { rows } = await pool.query(
    `select current_setting('data_directory') as folder, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::text as bytes`,
  );
  return { cpuMicros: cpuMicrosOf(rows[0].folder), logBytes: Number(rows[0].bytes) };
}

/** @param {Cost} before @param {Cost} after @param {number} count */
export function costPerTask(before, after, count) {
  return {
    cpuMicros:
      before.cpuMicros === null || after.cpuMicros === null
        ? Number.NaN
        : (after.cpuMicros - before.cpuMicros) / count,
    logBytes: (after.logBytes - before.logBytes) / count,
  };
}

/** Of the server and its processes, also of those that have ended. @param {string} folder */
function cpuMicrosOf(folder) {
  try {
    const server = Number(readFileSync(join(folder, 'postmaster.pid'), 'utf8').split('\n')[0]);
    const all = readdirSync('/proc')
      .filter(name => /^\d+$/.test(name))
      .map(Number);
    const stats = all.flatMap(pid => {
      const fields = fieldsOf(pid);
      return fields === null || (pid !== server && fields[FIELDS.parent] !== server)
        ? []
        : [{ pid, fields }];
    });
    const sum = (/** @type {number[]} */ fields, /** @type {number[]} */ places) =>
      places.reduce((total, place) => total + (fields[place] ?? 0), 0);
    const ticks = stats.reduce(
      (total, { pid, fields }) =>
        total +
        sum(fields, [FIELDS.user, FIELDS.system]) +
        (pid === server ? sum(fields, [FIELDS.childrenUser, FIELDS.childrenSystem]) : 0),
      0,
    );
    return ticks * TICK_MICROS;
  } catch {
    return null;
  }
}

/** From the state on; null: it has ended. @param {number} pid @returns {number[] | null} */
function fieldsOf(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name of the program stands in parentheses, and may have some of its own.
    return text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number);
  } catch {
    return null;
  }
}
