// @ts-check
import { existsSync, readFileSync } from 'node:fs';

/** @typedef {{ passed: number, failed: number }} Count */

/**
 * @typedef {{ fullName: string, status: string }} TestResult
 * @typedef {{ name: string, status: string, assertionResults: readonly TestResult[] }} FileResult
 */

/** A run with more failed files than these has failed: it is not run again. */
const MOST_AGAIN = 3;

/**
 * What a run of vitest counts for. Failures that belong to no test (a file that cannot be loaded,
 * an error after the last test) must not get lost between the numbers.
 * @param {string} file the report in JSON
 * @param {boolean} isGood whether vitest itself was content
 * @returns {Count & { skipped: number, again: readonly string[], failures: readonly string[] }} `again`: files worth a
 *   second run; `failures`: the names of the tests that failed
 */
export function countTests(file, isGood) {
  if (!existsSync(file)) return { passed: 0, failed: 1, skipped: 0, again: [], failures: [] };
  const report = JSON.parse(readFileSync(file, 'utf8'));
  /** @type {readonly FileResult[]} */
  const results = report.testResults;
  const skipped = report.numPendingTests + report.numTodoTests;
  const failed = report.numFailedTests + results.filter(failedAsAFile).length;
  const files = results.filter(({ status }) => status === 'failed');
  const again = files.length <= MOST_AGAIN ? files.map(({ name }) => name) : [];
  const failures = files.flatMap(({ name, assertionResults }) => [
    ...assertionResults.filter(isFailed).map(({ fullName }) => `${name}: ${fullName}`),
    ...(assertionResults.some(isFailed) ? [] : [name]),
  ]);
  const counted = failed === 0 && !isGood ? 1 : failed;
  return { passed: report.numPassedTests, failed: counted, skipped, again, failures };
}

/** @param {TestResult} test */
const isFailed = ({ status }) => status === 'failed';

/** @param {FileResult} result */
function failedAsAFile({ status, assertionResults }) {
  return status === 'failed' && !assertionResults.some(isFailed);
}
