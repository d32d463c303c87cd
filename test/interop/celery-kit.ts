import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { decodeJson } from '../../src/task/json.ts';
import { until } from '../support/database.ts';
import { celeryPython } from '../support/servers.ts';

const FOLDER = fileURLToPath(new URL('celery/', import.meta.url));

/** A real Celery: the URLs of its broker and its result backend. */
export interface CeleryTarget {
  readonly broker: string;
  readonly backend: string;
  /** The Redis that Python tasks write to. @default the backend */
  readonly store?: string;
  /** Celery's `task_queue_max_priority`, for RabbitMQ. */
  readonly maxPriority?: number;
  /** Celery's `task_default_queue`. */
  readonly defaultQueue?: string;
  /** It forwards unknown tasks (`sharing.py`), and prefetches without a limit. */
  readonly isSharing?: boolean;
  /** Quorum queues that it declares, and the type of their exchanges. */
  readonly quorum?: { readonly exchangeType: string; readonly queues: readonly string[] };
}

/** One call of `send_task`; times as ISO 8601. */
export interface CeleryCall {
  readonly name: string;
  readonly args?: readonly unknown[];
  readonly kwargs?: Readonly<Record<string, unknown>>;
  readonly options?: Readonly<Record<string, unknown>>;
}

function environment({
  broker,
  backend,
  store = backend,
  maxPriority,
  defaultQueue,
  isSharing = false,
  quorum,
}: CeleryTarget): NodeJS.ProcessEnv {
  return {
    ...process.env,
    INTEROP_BROKER: broker,
    INTEROP_BACKEND: backend,
    INTEROP_STORE: store,
    ...(maxPriority === undefined ? {} : { INTEROP_MAX_PRIORITY: String(maxPriority) }),
    ...(quorum === undefined
      ? {}
      : { INTEROP_QUORUM: [quorum.exchangeType, ...quorum.queues].join(',') }),
    ...(defaultQueue === undefined ? {} : { INTEROP_DEFAULT_QUEUE: defaultQueue }),
    ...(isSharing ? { INTEROP_CONSUMER: 'sharing:SharingConsumer', INTEROP_PREFETCH: '0' } : {}),
    // Celery refuses to be root otherwise, and Python would leave compiled files in the tree.
    C_FORCE_ROOT: '1',
    PYTHONDONTWRITEBYTECODE: '1',
    ...otherCelery(),
  };
}

/** Sources of another Celery (with its kombu, amqp, billiard, vine and redis) replace the installed one. */
export function otherCelery(): NodeJS.ProcessEnv {
  const path = process.env['OUTLAST_TEST_CELERY_PATH'];
  return path === undefined ? {} : { PYTHONPATH: path };
}

/** Sends with a Python producer; `json` is given instead of calls where numbers must not be touched. */
export async function sendFromPython(
  target: CeleryTarget,
  calls: readonly CeleryCall[] | string,
): Promise<void> {
  const child = spawn(celeryPython(), ['send.py'], {
    cwd: FOLDER,
    env: environment(target),
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  child.stdin.end(typeof calls === 'string' ? calls : JSON.stringify(calls));
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`the producer ended with ${code}`);
}

/** What AsyncResult returns for tasks in Python. */
export interface CeleryOutcome {
  readonly state: string;
  readonly value?: unknown;
  readonly type?: string;
  /** Of the exception's class; told of workflows only. */
  readonly module?: string;
  readonly args?: readonly string[];
  readonly traceback?: string;
}

/**
 * Waits for results in Python, as the callers of `get()` do; `onWaiting` is called when it waits. With `isStateOnly` it
 * looks once and returns the states.
 */
export async function readFromPython<T = CeleryOutcome>(
  target: CeleryTarget,
  ids: readonly string[],
  options: { readonly isStateOnly?: boolean; readonly onWaiting?: () => void } = {},
): Promise<readonly T[]> {
  const child = spawn(celeryPython(), ['read.py'], {
    cwd: FOLDER,
    env: environment(target),
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.end(JSON.stringify({ ids, state_only: options.isStateOnly ?? false }));
  let output = '';
  child.stdout.on('data', (part: Buffer) => {
    if (output === '') options.onWaiting?.();
    output += part.toString();
  });
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`the reader ended with ${code}`);
  return JSON.parse(output.slice(output.indexOf('\n'))) as readonly T[];
}

/** Runs a script of the folder to its end; the JSON values that it printed, one a line. */
export async function runScript<T>(
  target: CeleryTarget,
  script: string,
  ...args: readonly string[]
): Promise<readonly T[]> {
  const child = spawn(celeryPython(), [script, ...args], {
    cwd: FOLDER,
    env: environment(target),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.on('data', (part: Buffer) => (output += part.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`${script} ended with ${code}\n${output}`);
  return output
    .trim()
    .split('\n')
    .map(line => JSON.parse(line) as T);
}

/** Runs cases of `canvas.py`, which Python itself builds and reads; what each gives, by its name. */
export async function runCanvas(
  target: CeleryTarget,
  { ours, theirs, node }: { readonly ours: string; readonly theirs: string; readonly node: string },
  cases: readonly string[],
): Promise<Readonly<Record<string, unknown>>> {
  const child = spawn(celeryPython(), ['canvas.py', ...cases], {
    cwd: FOLDER,
    env: { ...environment(target), INTEROP_OURS: ours, INTEROP_THEIRS: theirs, INTEROP_NODE: node },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.on('data', (part: Buffer) => (output += part.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`the cases ended with ${code}`);
  return JSON.parse(output) as Readonly<Record<string, unknown>>;
}

/** The version of the Celery that the tests run, as numbers: `[5, 2, 6]`. */
export function celeryVersion(): readonly number[] {
  const { stdout } = spawnSync(celeryPython(), ['-c', 'import celery; print(celery.__version__)'], {
    env: { ...process.env, ...otherCelery() },
    encoding: 'utf8',
  });
  return stdout.trim().split('.').map(Number);
}

/** Whether the Python of the tests has Flower. */
export function hasFlower(): boolean {
  const env = { ...process.env, ...otherCelery() };
  return spawnSync(celeryPython(), ['-c', 'import flower.command'], { env }).status === 0;
}

/** Flower with its API, on this port; ready when it answers. */
export async function startFlower(target: CeleryTarget, port: number): Promise<ChildProcess> {
  const flags = ['-A', 'interop', 'flower', `--port=${port}`, '--address=127.0.0.1'];
  const child = spawn(celeryPython(), ['watch.py', ...flags], {
    cwd: FOLDER,
    env: { ...environment(target), FLOWER_UNAUTHENTICATED_API: 'true' },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const answers = (): Promise<boolean> =>
    fetch(`http://127.0.0.1:${port}/healthcheck`).then(
      ({ ok }) => ok,
      () => false,
    );
  await until(answers);
  return child;
}

/** A workflow as Python builds it: a task with its follow-ups, or tasks put together. */
export type CeleryCanvas =
  | (CeleryCall & {
      readonly immutable?: boolean;
      readonly link?: readonly CeleryCanvas[];
      readonly linkError?: readonly CeleryCanvas[];
    })
  | { readonly chain: readonly CeleryCanvas[] }
  | { readonly group: readonly CeleryCanvas[] }
  | { readonly header: readonly CeleryCanvas[]; readonly body: CeleryCanvas };

/** What was sent, and what `AsyncResult.get()` returns for it in the end, in the same Python process. */
export interface CeleryCalls {
  readonly ids: readonly string[];
  /** The states that a waiting caller saw are in `seen`. */
  readonly outcomes: Promise<readonly (CeleryOutcome & { readonly seen: readonly string[] })[]>;
}

/** Sends workflows from Python and waits for them there; `json` where numbers must not be touched. */
export async function callFromPython(
  target: CeleryTarget,
  calls: readonly CeleryCanvas[] | string,
): Promise<CeleryCalls> {
  const child = spawn(celeryPython(), ['call.py'], {
    cwd: FOLDER,
    env: environment(target),
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.end(typeof calls === 'string' ? calls : JSON.stringify(calls));
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const next = async (): Promise<string> => {
    const line = await lines.next();
    if (line.done === true) throw new Error('the caller ended too soon');
    return line.value;
  };
  const ids = JSON.parse(await next()) as readonly string[];
  const outcomes = next().then(line => decodeJson(line) as Awaited<CeleryCalls['outcomes']>);
  // A later await gets the rejection; until then it must not be an unhandled one.
  outcomes.catch(() => undefined);
  return { ids, outcomes };
}

const outputs = new WeakMap<ChildProcess, string>();

/** What a Celery worker has logged. */
export const outputOf = (worker: ChildProcess): string => outputs.get(worker) ?? '';

/** A Celery worker on these queues; ready when it says so. `node` is its name, where it is asked by name. */
export async function startCeleryWorker(
  target: CeleryTarget,
  queues: readonly string[],
  node = 'celery@%h',
): Promise<ChildProcess> {
  const quiet = ['--without-gossip', '--without-mingle', '--without-heartbeat'];
  const pool = ['--pool', 'solo', '--loglevel', 'info'];
  const child = spawn(
    celeryPython(),
    [
      '-m',
      'celery',
      '-A',
      'interop',
      'worker',
      '-n',
      node,
      '-Q',
      queues.join(','),
      ...pool,
      ...quiet,
    ],
    { cwd: FOLDER, env: environment(target), stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let output = '';
  await new Promise<void>((resolve, reject) => {
    const read = (part: Buffer): void => {
      output += part.toString();
      outputs.set(child, output);
      if (/\bready\./.test(output)) resolve();
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    child.once('exit', () => reject(new Error(`the worker ended\n${output}`)));
  });
  return child;
}

/** The output of a Celery command. */
export interface CeleryAnswer {
  readonly code: number | null;
  readonly stdout: string;
}

/** Runs `celery -A interop …` to its end. */
export async function runCelery(
  target: CeleryTarget,
  ...args: readonly string[]
): Promise<CeleryAnswer> {
  const child = spawn(celeryPython(), ['-m', 'celery', '-A', 'interop', ...args], {
    cwd: FOLDER,
    env: environment(target),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let stdout = '';
  child.stdout.on('data', (part: Buffer) => (stdout += part.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, stdout };
}

/** A Python process that asks workers by Celery's remote control, one question after the other. */
export class CeleryControl {
  readonly #child: ChildProcess;
  readonly #waiting: ((line: string) => void)[] = [];
  #rest = '';

  constructor(target: CeleryTarget) {
    this.#child = spawn(celeryPython(), ['control.py'], {
      cwd: FOLDER,
      env: environment(target),
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    this.#child.stdout?.on('data', (part: Buffer) => {
      const lines = (this.#rest + part.toString()).split('\n');
      this.#rest = lines.pop() ?? '';
      for (const line of lines) this.#waiting.shift()?.(line);
    });
  }

  /** The answer of the node, or undefined where it did not answer. */
  async ask(node: string, method: string, given: object = {}): Promise<unknown> {
    const line = await new Promise<string>(resolve => {
      this.#waiting.push(resolve);
      this.#child.stdin?.write(`${JSON.stringify([method, given, node])}\n`);
    });
    return (JSON.parse(line) as readonly Record<string, unknown>[])[0]?.[node];
  }

  async close(): Promise<void> {
    await endProcess(this.#child);
  }
}

/** One event, as Celery's own receiver hands it out. */
export type CeleryEvent = Readonly<Record<string, unknown>> & { readonly type: string };

/** Celery's receiver of events; ready when it listens. */
export async function receiveEvents(
  target: CeleryTarget,
): Promise<{ readonly events: readonly CeleryEvent[]; readonly child: ChildProcess }> {
  const child = spawn(celeryPython(), ['events.py'], {
    cwd: FOLDER,
    env: environment(target),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const events: CeleryEvent[] = [];
  let rest = '';
  await new Promise<void>((resolve, reject) => {
    child.stdout.on('data', (part: Buffer) => {
      const lines = (rest + part.toString()).split('\n');
      rest = lines.pop() ?? '';
      events.push(...lines.map(line => JSON.parse(line) as CeleryEvent));
      if (events.length > 0) resolve();
    });
    child.once('exit', () => reject(new Error('the receiver ended')));
  });
  return { events, child };
}

export async function endProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill('SIGKILL');
  await exit;
}
