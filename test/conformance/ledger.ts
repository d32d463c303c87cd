import { afterAll, beforeAll, describe } from 'vitest';
import { afterLogSuite } from './ledger-after.ts';
import { beginSuite } from './ledger-begin.ts';
import { boundsSuite } from './ledger-bounds.ts';
import { LedgerDriver, type MakeLedgerFixture } from './ledger-driver.ts';
import { endingSuite } from './ledger-ending.ts';
import { followSuite } from './ledger-follow.ts';
import { recoverySuite } from './ledger-recovery.ts';
import { refusalSuite } from './ledger-refusals.ts';
import { settleSuite } from './ledger-settle.ts';

/** Everything an adapter of the ledger must do. All suites share one fixture, so every test uses unique names. */
export function describeLedger(name: string, makeFixture: MakeLedgerFixture): void {
  describeOn(`ledger: ${name}`, makeFixture, driver => {
    beginSuite(driver);
    settleSuite(driver);
    endingSuite(driver);
    recoverySuite(driver);
    followSuite(driver);
    refusalSuite(driver);
    afterLogSuite(driver);
    boundsSuite(driver);
  });
}

/** The suite about follow-ups, for a store that handles them in more than one way. */
export function describeFollowing(name: string, makeFixture: MakeLedgerFixture): void {
  describeOn(`follow-ups: ${name}`, makeFixture, followSuite);
}

function describeOn(
  title: string,
  makeFixture: MakeLedgerFixture,
  suites: (driver: () => LedgerDriver) => void,
): void {
  describe(title, () => {
    let driver: LedgerDriver | undefined;
    beforeAll(async () => {
      driver = new LedgerDriver(await makeFixture());
    });
    afterAll(async () => {
      await driver?.fixture.dispose();
    });
    suites(() => {
      if (driver === undefined) throw new Error('the fixture has not been made');
      return driver;
    });
  });
}
