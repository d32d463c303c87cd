// @ts-check
import { existsSync, readFileSync } from 'node:fs';

/** @typedef {{ passed: number, failed: number }} Count */

/**
 * What a run of vitest counts for. Failures that belong to no test (a file that cannot be loaded,
 * an error after the last test) must not get lost between the numbers.
 * @param {string} file the report in JSON
 * @param {boolean} isGood whether vitest itself was content
 * @returns {Count}
 */
export function countTests(file, isGood) {
  if (!existsSync(file)) return { passed: 0, failed: 1 };
  const report = JSON.parse(readFileSync(file, 'utf8'));
  const skipped = report.numPendingTests + report.numTodoTests;
  if (skipped > 0) console.log(`${skipped} skipped`);
  const failed = report.numFailedTests + report.testResults.filter(failedAsAFile).length;
  return { passed: report.numPassedTests, failed: failed === 0 && !isGood ? 1 : failed };
}

/** @param {{ status: string, assertionResults: readonly { status: string }[] }} result */
function failedAsAFile({ status, assertionResults }) {
  return status === 'failed' && !assertionResults.some(test => test.status === 'failed');
}
