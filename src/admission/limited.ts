import { hasMark, MARKS } from '../task/marks.ts';

/** True: the task must pass a rate before it is published. Found in the bytes, without parsing: most tasks have no mark. */
export function isLimited(options: Uint8Array): boolean {
  return hasMark(options, MARKS.limited);
}
