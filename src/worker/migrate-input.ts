import { outlastError } from '../errors/error.ts';
import type { BegunTask } from '../ledger/ledger.ts';
import type { Handler } from './handler.ts';

/** Old payloads climb version by version. A newer payload than ours is refused: a newer worker may run it. */
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
    value = await step(value);
  }
  return value;
}
