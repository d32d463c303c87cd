import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { isOwnFrame, ownFrames } from '../telemetry/own-frames.ts';

/** Where a module failed to load. */
export interface LoadFailure {
  /** As people write it: `/app/src/tasks.js:12:3`; empty if unknown. */
  readonly at: string;
  readonly line?: number;
  /** The user's own frames first. */
  readonly traceback: string;
}

const LOCATION = /(?:file:\/\/)?((?:\/|[a-z]:[\\/])[^()\n]*?):(\d+)(?::(\d+))?\)?$/i;
/** Above the message, for compile errors: `file:///app/tasks.js:1`. */
const HEADER = /^(\S+:\d+)\n/;
const CHECK_MS = 5_000;

export function loadFailure(file: string, error: unknown): LoadFailure {
  const stack = error instanceof Error && typeof error.stack === 'string' ? error.stack : '';
  const frames = ownFrames(stack);
  const position = HEADER.exec(stack)?.[1] ?? frames.find(isOwnFrame) ?? checked(file, error);
  const [, path = '', line = '', column] = LOCATION.exec(position) ?? [];
  const traceback = frames.join('\n');
  if (path === '') return { at: '', traceback };
  const shown = position.includes('file://') ? fileURLToPath(`file://${path}`) : path;
  const at = `${shown}:${line}${column === undefined ? '' : `:${column}`}`;
  return { at, line: Number(line), traceback };
}

/** Node does not expose the line of a syntax error in an ES module, but prints it when it checks the file. */
function checked(file: string, error: unknown): string {
  if (!(error instanceof SyntaxError)) return '';
  const { stderr } = spawnSync(process.execPath, ['--check', file], { timeout: CHECK_MS });
  return /^\S+:\d+$/m.exec(String(stderr))?.[0] ?? '';
}
