import { AsyncLocalStorage } from 'node:async_hooks';
import { outlastError } from '../errors/error.ts';

interface OpenDoor {
  readonly scope: object;
  readonly step: string;
  isOpen: boolean;
}

const doors = new AsyncLocalStorage<OpenDoor>();

/** Runs a function inside a door of a run, and knows so wherever it goes from there. */
export async function insideDoor<T>(scope: object, step: string, fn: () => Promise<T>): Promise<T> {
  const door = { scope, step, isOpen: true };
  try {
    return await doors.run(door, fn);
  } finally {
    // What it has left behind may still be running.
    door.isOpen = false;
  }
}

/**
 * A call that must wait for the fence, or for the row of the task, which the door around it holds until it has ended: it
 * would wait for itself, be given up as a lock that does not come, and come again for ever.
 */
export function refuseInside(scope: object, call: string): void {
  const door = doors.getStore();
  if (door === undefined || door.scope !== scope || !door.isOpen) return;
  throw outlastError('ERR_STEP_NESTED', {
    message: `${call} was called inside the ctx.transaction of the step ${door.step}`,
    hint: 'Call it before or after. Inside, send with outlast.send(tx, …), and let the value of the step say how far it came.',
    fields: { step: door.step },
  });
}
