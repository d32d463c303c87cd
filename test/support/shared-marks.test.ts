import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import {
  loadShared,
  luaWithMarks,
  sqlWithMarks,
  whyNotShared,
} from '../../scripts/shared-marks.mjs';
import { POSITIONS, RECORD_GROUPS, RECORD_SHAPE } from '../../src/adapters/redis/record-layout.ts';
import { LUA } from '../../src/adapters/redis/lua.generated.ts';
import { MIGRATIONS } from '../../src/adapters/postgres/migrations.generated.ts';
import { SQL } from '../../src/adapters/postgres/sql.generated.ts';
import { toBytes } from '../../src/task/json.ts';
import { hasMark, MARKS, NOTHING_FOLLOWS } from '../../src/task/marks.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const CONSTANTS = {
  MARK_LIMITED: `"it's":true`,
  LAYOUT_BYTES: 7,
  LAYOUT_HEAD: '\u00dc\u0000\u001e',
};
const SHARED = { constants: CONSTANTS, codes: new Set(['ERR_DIGEST']) };

describe('a mark in a file', () => {
  it('becomes a quoted and escaped string in SQL and Lua', () => {
    expect(sqlWithMarks(`position(:'mark_limited'::bytea in o)`, CONSTANTS)).toBe(
      `position('"it''s":true'::bytea in o)`,
    );
    expect(luaWithMarks('find(o, MARK_LIMITED, LAYOUT_BYTES) .. LAYOUT_HEAD', CONSTANTS)).toBe(
      String.raw`find(o, '"it\'s":true', 7) .. '\220\000\030'`,
    );
  });

  it('is refused where it has no definition', () => {
    expect(whyNotShared(`select :'mark_limted'`, SHARED)).toContain('MARK_LIMTED');
    expect(whyNotShared('return STATE_ASLEEP', SHARED)).toContain('STATE_ASLEEP');
    expect(whyNotShared(`select :'mark_limited'`, SHARED)).toBeNull();
  });

  it('is refused where it is an unknown error code', () => {
    expect(whyNotShared(`reason = 'ERR_DIGSET'`, SHARED)).toContain('ERR_DIGSET');
    expect(whyNotShared(`reason = 'ERR_DIGEST'`, SHARED)).toBeNull();
  });
});

describe('the shared definitions', () => {
  it('appear in the statements and scripts that are run', () => {
    expect(SQL.move).toContain(`'${MARKS.limited}'::bytea`);
    expect(SQL.enqueuePlain).toContain(`'${NOTHING_FOLLOWS}'`);
    expect(LUA.ledgerCommit.text).toContain(`'${MARKS.unkept}'`);
    expect(LUA.ledgerFail.text).toContain(`'${MARKS.replyTo}'`);
    expect(LUA.ledgerFail.text).toContain(
      `local STATE, EPOCH, RUN, OWNER, SETTLED = 1, 2, 3, 4, 5`,
    );
  });

  it('are what the triggers of PostgreSQL look for', () => {
    const statements = MIGRATIONS.flatMap(migration => migration.statements).join('\n');
    expect(statements).toContain(`'${NOTHING_FOLLOWS}]'`);
    expect(statements).toContain(`'${MARKS.replyTo}'`);
  });

  it('leave no placeholder behind that Lua would read as nil', async () => {
    const { constants } = await loadShared(ROOT);
    for (const { text } of Object.values(LUA))
      for (const name of Object.keys(constants))
        expect(text).not.toMatch(new RegExp(String.raw`\b${name}\b`));
  });

  it('give every field of a record its own position', () => {
    const positions = Object.values(POSITIONS);
    expect(positions).toEqual(positions.map((_, index) => index + 1));
    expect(positions).toHaveLength(30);
    expect(Object.keys(POSITIONS)).toEqual(RECORD_GROUPS.flat());
    expect(RECORD_SHAPE).toHaveLength(30);
  });

  it('find a mark in options, and not in texts of users', () => {
    const options = (value: object): Uint8Array => toBytes(JSON.stringify(value));
    expect(hasMark(options({ limited: true }), MARKS.limited)).toBe(true);
    expect(hasMark(options({ headers: { a: MARKS.limited } }), MARKS.limited)).toBe(false);
    expect(hasMark(options({}), MARKS.limited)).toBe(false);
  });
});
