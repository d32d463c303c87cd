/**
 * Where Python finds the exception with this name. Without its module a caller would get a class that is made up on the
 * spot, `celery.exceptions.ValueError`, which `except ValueError` does not catch. Left out are those that a plain text
 * cannot make, and those that would end the caller's process.
 */
const BUILTINS = `
  ArithmeticError AssertionError AttributeError BlockingIOError BrokenPipeError BufferError ChildProcessError
  ConnectionAbortedError ConnectionError ConnectionRefusedError ConnectionResetError EOFError Exception FileExistsError
  FileNotFoundError FloatingPointError IOError ImportError IndexError InterruptedError IsADirectoryError KeyError
  LookupError MemoryError ModuleNotFoundError NameError NotADirectoryError NotImplementedError OSError OverflowError
  PermissionError ProcessLookupError RecursionError ReferenceError RuntimeError SyntaxError SystemError TimeoutError
  TypeError UnicodeError ValueError ZeroDivisionError
`;
const CELERY = `
  ChordError ImproperlyConfigured InvalidTaskError MaxRetriesExceededError NotRegistered QueueNotFound SecurityError
  TaskError TaskRevokedError
`;
const BILLIARD = 'SoftTimeLimitExceeded TimeLimitExceeded WorkerLostError';

/** What Celery calls our own reasons. */
const OURS = {
  ERR_TIMEOUT: 'billiard.exceptions.TimeLimitExceeded',
  ERR_RESURRECTIONS_SPENT: 'billiard.exceptions.WorkerLostError',
  ERR_TASK_UNKNOWN: 'celery.exceptions.NotRegistered',
  ERR_UNDECODABLE: 'kombu.exceptions.DecodeError',
  // What Celery raises where its own result backend counts no chords.
  ERR_CHORD_UNCOUNTED: 'builtins.NotImplementedError',
} as const;

const listed = (names: string, module: string): readonly string[] =>
  names
    .trim()
    .split(/\s+/)
    .map(name => `${name}=${module}.${name}`);

/** The table as a text, which scripts in Redis search too: ` name=module.name ` for each. */
export const PYTHON_EXCEPTIONS: string = ` ${[
  ...listed(BUILTINS, 'builtins'),
  ...listed(CELERY, 'celery.exceptions'),
  ...listed(BILLIARD, 'billiard.exceptions'),
  ...Object.entries(OURS).map(([code, name]) => `${code}=${name}`),
].join(' ')} `;

const KNOWN: ReadonlyMap<string, string> = new Map(
  PYTHON_EXCEPTIONS.trim()
    .split(' ')
    .map(entry => entry.split('=') as [string, string]),
);

export interface PythonException {
  readonly type: string;
  readonly module: string;
}

/** What a caller in Python is to restore. For names of your own the module is one that Python does not have. */
export function pythonException(type: string): PythonException {
  const known = KNOWN.get(type);
  if (known === undefined) return { type, module: 'outlast' };
  const dot = known.lastIndexOf('.');
  return { type: known.slice(dot + 1), module: known.slice(0, dot) };
}

const MOST_SHOWN = 500;

/** As Python shows an exception: `ValueError('no funds')`. */
export function shownException(error: { readonly type: string; readonly message: string }): string {
  const text = error.message
    .slice(0, MOST_SHOWN)
    .replaceAll('\\', '\\\\')
    .replaceAll("'", "\\'")
    .replaceAll('\n', '\\n');
  return `${pythonException(error.type).type}('${text}')`;
}
