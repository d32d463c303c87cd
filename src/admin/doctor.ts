import { isDenied } from '../errors/denied.ts';
import { isOutlastError, isUnavailable, outlastError } from '../errors/error.ts';
import { maskSecrets } from '../errors/mask-secrets.ts';
import { sleep, systemClock } from '../runtime/runtime.ts';
import { advise, CHECKS, ok, problem, type Check } from '../telemetry/checkup.ts';

/** The findings of a doctor for all stores. */
export interface DoctorReport {
  readonly status: 'ok' | 'unhealthy' | 'unreachable';
  readonly checks: readonly DoctorCheck[];
}

/** `target` is the key of the configuration that names the store: `database`, `outboxes.crm`. */
export interface DoctorCheck extends Check {
  readonly target: string;
  /** What the check is about, whatever it found. */
  readonly meaning: string;
}

export interface CheckupTarget {
  readonly target: string;
  check(): Promise<readonly Check[]>;
}

export interface ExamineOptions {
  /** Advice counts as a problem. */
  readonly isStrict?: boolean;
  readonly patienceMs?: number;
}

/** All questions to one store together: each of them has its own limit, and there are dozens. */
const PATIENCE_MS = 60_000;

/**
 * Checks every store; one that does not answer does not stop the checks of the others, and is given up in the end. Strict:
 * advice counts as a problem.
 */
export async function examine(
  targets: readonly CheckupTarget[],
  warnings: readonly string[],
  { isStrict = false, patienceMs = PATIENCE_MS }: ExamineOptions = {},
): Promise<DoctorReport> {
  const checks: DoctorCheck[] = [];
  const add = (target: string, check: Check): void =>
    void checks.push({ ...check, meaning: CHECKS[check.name], target });
  for (const check of configChecks(warnings)) add('config', check);
  let isReachable = true;
  for (const one of targets) {
    const { target } = one;
    try {
      const found = await inTime(one.check(), patienceMs);
      for (const check of found) add(target, { ...check, message: maskSecrets(check.message) });
    } catch (error) {
      if (isUnavailable(error)) isReachable = false;
      add(target, refusal(error));
    }
  }
  const isWell = checks.every(
    ({ status }) => status === 'ok' || (status === 'advice' && !isStrict),
  );
  return { status: !isReachable ? 'unreachable' : isWell ? 'ok' : 'unhealthy', checks };
}

/** What is given up goes on in the background; the process ends soon. */
async function inTime<T>(answer: Promise<T>, ms: number): Promise<T> {
  const late = new AbortController();
  const giveUp = sleep(systemClock, ms, late.signal).then((): never => {
    throw outlastError('ERR_STORE_UNAVAILABLE', {
      message: `it has not answered all questions within ${ms / 1_000} s`,
      hint: 'Look at the server itself: it answers, but too slowly.',
      fields: {},
    });
  });
  giveUp.catch(() => undefined);
  answer.catch(() => undefined);
  try {
    return await Promise.race([answer, giveUp]);
  } finally {
    late.abort();
  }
}

function configChecks(warnings: readonly string[]): readonly Check[] {
  if (warnings.length === 0) return [ok('config', 'nothing in the configuration looks unintended')];
  const advice = 'Legal, but seldom meant: npx outlast config show.';
  return warnings.map(warning => advise('config', warning, advice, {}));
}

/** Why a store could not be checked; an error that did not come from the store is a bug and is thrown on. */
function refusal(error: unknown): Check {
  if (isDenied(error)) {
    const advice = 'Grant this user what a relay needs, or look as another.';
    return problem('permission', maskSecrets(error.message), advice, {});
  }
  if (!isOutlastError(error)) throw error;
  const { code, hint, message } = error;
  if (isUnavailable(error)) return problem('connection', message, hint, { code });
  if (code === 'ERR_SCHEMA_MISSING') return problem('schema', message, hint, { code });
  throw error;
}
