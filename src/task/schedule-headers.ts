/** Headers of a task that a schedule has sent: its name, and the instant of the slot as ISO text. */
export const SCHEDULE_HEADER = 'schedule';
export const SLOT_HEADER = 'schedule-slot';

/** The schedule and the slot that a task was sent for. `slot`: null for a task that was asked for by `runNow`. */
export interface ScheduleSlot {
  readonly name: string;
  readonly slot: Date | null;
}

/** Null: no schedule has sent it. */
export function slotIn(headers: Readonly<Record<string, string>>): ScheduleSlot | null {
  const name = headers[SCHEDULE_HEADER];
  if (name === undefined) return null;
  const slot = new Date(headers[SLOT_HEADER] ?? '');
  return { name, slot: Number.isNaN(slot.getTime()) ? null : slot };
}
