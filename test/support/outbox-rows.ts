import { createOutlast, task, type SendOptions } from '../../dist/index.js';

/** Tasks that wait in the outbox although there is no broker: each has an ordering key, its own id. */
export async function sendRows(
  database: string,
  ids: readonly string[],
  options: Omit<SendOptions, 'id' | 'orderingKey'> = {},
): Promise<void> {
  const outlast = createOutlast({ database });
  const any = task('py.any');
  await outlast.transaction(tx =>
    outlast.sendMany(
      tx,
      ids.map(id => any.with(undefined, { ...options, id, orderingKey: id })),
    ),
  );
  await outlast.close();
}
