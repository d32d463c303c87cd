// Runs every errand against the workers of both services, and prints what came of it.
import { db, outlast, pool } from '../outlast.mjs';
import { makeTables } from '../tables.mjs';
import { effects } from './effects.mjs';
import { limits } from './limits.mjs';
import { sending } from './sending.mjs';
import { workflows } from './workflows.mjs';

try {
  await makeTables(db);
  for (const errand of [sending, workflows, limits, effects]) await errand(db, outlast);
} finally {
  await outlast.close();
  await pool.end();
}
