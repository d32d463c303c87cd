// @ts-check
import { readFileSync, readdirSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

const LOOK_EVERY_MS = 25;

/**
 * @param {number} pid the leader, whose id is the group's
 * @param {NodeJS.Signals} signal
 */
export function signalGroup(pid, signal) {
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if (!isNoSuchProcess(error)) throw error;
  }
}

/** @param {number} pid */
function isGroupAlive(pid) {
  try {
    process.kill(-pid, 0);
    return true;
  } catch (error) {
    if (isNoSuchProcess(error)) return false;
    throw error;
  }
}

/**
 * Whether the whole group ended in time. It may hold processes that are not our children, whose
 * end nobody reports, so this has to look.
 * @param {number} pid
 * @param {number} withinMs
 */
export async function waitUntilGone(pid, withinMs) {
  const deadline = performance.now() + withinMs;
  while (isGroupAlive(pid)) {
    if (performance.now() > deadline) return false;
    await delay(LOOK_EVERY_MS);
  }
  return true;
}

/**
 * Processes outside any group of ours that were started with the run's folder in their environment:
 * what a test started detached and forgot. Only Linux tells; elsewhere there are none to be seen.
 * @param {string} folder
 */
export function findStrays(folder) {
  const pids = listFolder('/proc').filter(name => /^\d+$/.test(name));
  return pids
    .filter(pid => readProcess(pid, 'environ').includes(`TMPDIR=${folder}/`))
    .map(pid => ({
      pid: Number(pid),
      command: readProcess(pid, 'cmdline').replaceAll('\0', ' ').trim(),
    }));
}

/** @param {string} path */
function listFolder(path) {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

/**
 * @param {string} pid
 * @param {string} file
 */
function readProcess(pid, file) {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1');
  } catch {
    // It has ended, or belongs to another user.
    return '';
  }
}

/** @param {unknown} error */
function isNoSuchProcess(error) {
  return error instanceof Error && 'code' in error && error.code === 'ESRCH';
}
