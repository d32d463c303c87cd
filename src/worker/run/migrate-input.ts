import { outlastError } from '../../errors/error.ts';
import type { BegunTask } from '../../ledger/ledger.ts';
import { errorRecord } from './error-record.ts';
import type { Handler } from '../handler.ts';

/** Migrates old payloads version by version. A newer payload than ours is refused: a newer worker may run it. */
export async function migrateInput(
  task: BegunTask,
  handler: Handler,
  input: unknown,
): Promise<unknown> {
  const wanted = handler.task.contract.version;
  let value = input;
  for (let version = task.envelope.version; version !== wanted; version++) {
    const step = handler.migrations.get(version);
    if (!step || version > wanted) {
      throw outlastError('ERR_VERSION_UNREACHABLE', {
        message: `a payload of version ${version} cannot become version ${wanted}`,
        hint: 'Deploy a handler with a migration from that version, then retry the dead letter.',
        fields: { task: task.envelope.name, version },
      });
    }
    value = await climb(step, value, { task: task.envelope.name, version });
  }
  return value;
}

async function climb(
  step: (old: unknown) => unknown,
  value: unknown,
  fields: { readonly task: string; readonly version: number },
): Promise<unknown> {
  try {
    return await step(value);
  } catch (cause) {
    const { task, version } = fields;
    throw outlastError('ERR_MIGRATION_FAILED', {
      message: `the migration of ${task} from version ${version} threw: ${errorRecord(cause).message}`,
      hint: 'Mend the step, deploy it, and retry the dead letter.',
      fields,
      cause,
    });
  }
}
