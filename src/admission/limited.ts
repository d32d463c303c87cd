/** As options are encoded; within a value of the user's the quotes would be escaped. `move.sql` looks for the same text. */
const MARK = '"limited":true';

/** True: the task must pass a rate before it is published. Options need not be read for this: most have no such word. */
export function isLimited(options: Uint8Array): boolean {
  if (options.length < MARK.length) return false;
  return Buffer.from(options.buffer, options.byteOffset, options.length).includes(MARK);
}
