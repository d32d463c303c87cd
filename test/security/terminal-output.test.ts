import { describe, expect, it } from 'vitest';
import { createOutput } from '../../src/cli/output.ts';
import { createLogger } from '../../src/telemetry/logger.ts';

/** Ends the line, clears the screen (C0 and C1), changes the writing direction, separates lines for some viewers. */
const EVIL =
  'x\u001b[2J\u009b2J\u202eevil\u2066\u2028\u2029\u061c\u200f\ufeff\r\n12:00:00.000 error faked\n';
const OBEYED =
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/;

function logged(json: boolean, fields: object, message: string): string {
  let out = '';
  const write = (line: string): void => void (out += line);
  createLogger({ level: 'debug', json, write, now: () => 0 }).error(fields, message);
  return out;
}

describe('a log line', () => {
  const fields = () => ({ name: EVIL, error: new Error(EVIL), [EVIL]: { deep: EVIL } });

  it('is one line of JSON without terminal control characters, and parses to the same values', () => {
    const out = logged(true, fields(), EVIL);
    expect(out).not.toMatch(OBEYED);
    expect(out.split('\n')).toHaveLength(2);
    expect(JSON.parse(out)).toMatchObject({ name: EVIL, message: EVIL, [EVIL]: { deep: EVIL } });
  });

  it('is one line of text, with the stack frames of its error indented below', () => {
    const out = logged(false, fields(), EVIL);
    expect(out).not.toMatch(OBEYED);
    const [first = '', ...frames] = out.trimEnd().split('\n');
    expect(first).toContain('\\r\\n12:00:00.000 error faked\\n');
    expect(frames.length).toBeGreaterThan(0);
    for (const frame of frames) expect(frame).toMatch(/^ {4}at /);
  });

  it('cannot be faked by a stack frame', () => {
    const error = new Error('x');
    error.stack = `Error: x\n    at good (/app/a.js:1:1)\n12:00:00.000 error faked\n at \u009b2J\u202e`;
    expect(logged(false, { error }, 'm').trimEnd().split('\n').slice(1)).toEqual([
      '    at good (/app/a.js:1:1)',
      '    at \\u009b2J\\u202e',
    ]);
  });
});

describe('a stack frame of the user’s own files', () => {
  it('comes before those of packages, of Node and of Outlast', () => {
    const error = new Error('x');
    error.stack = [
      'Error: x',
      '    at query (/app/node_modules/pg/lib/client.js:1:1)',
      '    at process (node:internal/process/task_queues:95:5)',
      '    at invoke (/app/node_modules/outlast/dist/worker/run/execute.js:1:1)',
      '    at charge (file:///app/src/charge.js:12:3)',
    ].join('\n');
    const [, first] = logged(false, { error }, 'm').split('\n');
    expect(first).toBe('    at charge (file:///app/src/charge.js:12:3)');
  });
});

describe('the output of a command', () => {
  it('has exactly the given number of lines, in every form', () => {
    let [stdout, stderr] = ['', ''];
    const output = createOutput(
      text => void (stdout += text),
      text => void (stderr += text),
    );
    output.line(EVIL);
    output.lines([EVIL, EVIL]);
    output.note(EVIL);
    output.notes([EVIL, EVIL]);
    output.table([{ name: EVIL }], ['name']);
    output.json({ name: EVIL });
    expect(`${stdout}${stderr}`).not.toMatch(OBEYED);
    expect(stdout.split('\n')).toHaveLength(3 + 2 + 1 + 1);
    expect(stderr.split('\n')).toHaveLength(3 + 1);
    expect(stdout).toContain(JSON.stringify(EVIL).slice(1, 5));
  });
});
