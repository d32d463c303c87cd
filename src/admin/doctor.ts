import { isDenied } from '../errors/denied.ts';
import { isOutlastError, isUnavailable } from '../errors/error.ts';
import { maskSecrets } from '../errors/mask-secrets.ts';
import { advise, ok, problem, type Check } from '../telemetry/checkup.ts';

/** The findings of a doctor for all stores. */
export interface DoctorReport {
  readonly status: 'ok' | 'unhealthy' | 'unreachable';
  readonly checks: readonly DoctorCheck[];
}

/** `target` is the key of the configuration that names the store: `database`, `outboxes.crm`. */
export interface DoctorCheck extends Check {
  readonly target: string;
}

export interface Patient {
  readonly target: string;
  check(): Promise<readonly Check[]>;
}

/** Checks every store; one that does not answer does not stop the checks of the others. */
export async function examine(
  patients: readonly Patient[],
  warnings: readonly string[],
): Promise<DoctorReport> {
  const checks: DoctorCheck[] = configChecks(warnings).map(check => ({
    ...check,
    target: 'config',
  }));
  let isReachable = true;
  for (const patient of patients) {
    const { target } = patient;
    try {
      const found = await patient.check();
      checks.push(
        ...found.map(check => ({ ...check, message: maskSecrets(check.message), target })),
      );
    } catch (error) {
      if (isUnavailable(error)) isReachable = false;
      checks.push({ ...refusal(error), target });
    }
  }
  const isWell = checks.every(({ status }) => status !== 'problem');
  return { status: !isReachable ? 'unreachable' : isWell ? 'ok' : 'unhealthy', checks };
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
