import { afterAll, beforeAll, describe } from 'vitest';
import { beginSuite } from './ledger-begin.ts';
import { LedgerDriver, type MakeLedgerFixture } from './ledger-driver.ts';
import { endingSuite } from './ledger-ending.ts';
import { followSuite } from './ledger-follow.ts';
import { recoverySuite } from './ledger-recovery.ts';
import { settleSuite } from './ledger-settle.ts';

/** Everything an adapter of the ledger must do. One fixture serves all; every test uses names of its own. */
export function describeLedger(name: string, makeFixture: MakeLedgerFixture): void {
  describe(`ledger: ${name}`, () => {
    let driver: LedgerDriver | undefined;
    beforeAll(async () => {
      driver = new LedgerDriver(await makeFixture());
    });
    afterAll(async () => {
      await driver?.fixture.dispose();
    });
    const current = (): LedgerDriver => {
      if (driver === undefined) throw new Error('the fixture has not been made');
      return driver;
    };
    beginSuite(current);
    settleSuite(current);
    endingSuite(current);
    recoverySuite(current);
    followSuite(current);
  });
}
