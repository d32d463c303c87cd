import type { StoredSchedule } from '../../schedule/schedule-store.ts';
import type { SqlRow } from './sql-database.ts';

/** In the order of the parameters of `schedule-insert` and `schedule-update`. */
export const scheduleColumns = (
  name: string,
  to: Omit<StoredSchedule, 'name'>,
): (string | number | boolean | null)[] => [
  name,
  to.version,
  to.origin,
  to.isPaused,
  to.definition,
  to.digest,
  to.seal,
  to.nextSlotMs,
  to.dueMs,
  to.lastSlotMs,
  to.lastTask,
  to.fired,
  to.missed,
  to.error,
  to.declaredUntilMs,
  to.disputedUntilMs,
];

/** A row of `outlast_schedule`, whatever the driver makes of its numbers. */
export function readScheduleRow(row: SqlRow): StoredSchedule {
  const text = (column: string): string => String(row[column]);
  const maybe = (column: string): string | null =>
    row[column] === null || row[column] === undefined ? null : text(column);
  const time = (column: string): number | null => {
    const value = maybe(column);
    return value === null ? null : Number(value);
  };
  return {
    name: text('name'),
    version: text('version'),
    origin: text('origin') === 'config' ? 'config' : 'api',
    isPaused: row['paused'] === true || Number(row['paused']) === 1,
    definition: text('definition'),
    digest: text('digest'),
    seal: maybe('seal'),
    nextSlotMs: time('next_slot_ms'),
    dueMs: time('due_ms'),
    lastSlotMs: time('last_slot_ms'),
    lastTask: maybe('last_task'),
    fired: Number(row['fired']),
    missed: Number(row['missed']),
    error: maybe('error'),
    declaredUntilMs: time('declared_until_ms'),
    disputedUntilMs: time('disputed_until_ms'),
  };
}
