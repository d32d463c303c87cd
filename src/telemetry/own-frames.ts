import { fileURLToPath } from 'node:url';

const FRAME = /^\s*at .{1,500}$/gm;
const FOREIGN = /[\\/]node_modules[\\/]|\(node:|at (?:async )?node:|<anonymous>/;
/** The folder of this package's own code: its frames show how a handler is called, not what failed. */
const OURS = ownFolder(import.meta.url);
const MOST = 8;

/** A bundle in CommonJS has no URL; there every frame is the user's. */
function ownFolder(base: string | undefined): string {
  return base === undefined ? '\0' : fileURLToPath(new URL('..', base));
}

/** A frame of the user's own files, not of a package or of Node. */
export const isOwnFrame = (frame: string): boolean => !FOREIGN.test(frame) && !frame.includes(OURS);

/** The frames of a stack, those of the user's own files first: that is where to look. Without the message. */
export function ownFrames(stack: string): readonly string[] {
  const frames = (stack.slice(0, 20_000).match(FRAME) ?? []).map(frame => frame.trim());
  const others = frames.filter(frame => !isOwnFrame(frame));
  return [...frames.filter(isOwnFrame), ...others].slice(0, MOST);
}
