import type { Pool } from 'pg';

export interface Planting {
  readonly name?: string;
  /** SQL expressions. */
  readonly deadAt?: string;
  readonly createdAt?: string;
  readonly expiresAt?: string;
  readonly body?: string;
  readonly options?: string;
  readonly redacted?: { readonly args: string; readonly kwargs: string };
  readonly orderingKey?: string;
}

/** Puts a dead task where a worker would have left it. */
export async function plantDeadTask(
  pool: Pool,
  id: string,
  planting: Planting = {},
): Promise<void> {
  const { name = 'shop.planted', body = '[[],{"n":1},null]', options = '{}' } = planting;
  const { deadAt = 'now()', createdAt = 'now()', expiresAt = 'null' } = planting;
  const error = '{"type":"Error","message":"planted","traceback":""}';
  await pool.query(
    `insert into outlast_task (id, name, queue, priority, payload_version, body, options, digest, state, ending,
       reason, error, history, version, created_at, ended_at, expires_at)
     values ($1, $2, 'planted', 0, 1, $3, $4, 'x', 'dead', 'dead', 'ERR_ATTEMPTS_SPENT', $5,
       outlast_line('dead', 1, null, $5), 1, ${createdAt}, ${deadAt}, ${expiresAt})`,
    [id, name, Buffer.from(body), Buffer.from(options), Buffer.from(error)],
  );
}

/** Puts a row where a relay would have left it after its last attempt. */
export async function plantRelayLetter(
  pool: Pool,
  id: string,
  planting: Planting = {},
): Promise<void> {
  const { name = 'shop.relayed', options = '{}', redacted, orderingKey } = planting;
  const { deadAt = 'now()', createdAt = 'now()', expiresAt = 'null' } = planting;
  await pool.query(
    `insert into outlast_dead_letter (task_id, version, task_name, queue, priority, args, kwargs, embed, options,
       digest, schema_version, payload_version, retries, failure_reason, error_history, created_at, dead_at,
       expires_at, redacted_args, redacted_kwargs, row_id, ordering_key, parks_key)
     values ($1, 1, $2, 'planted', 0, '["secret"]', '{}', 'null', $3, 'x', 1, 1, 5, 'no exchange', '',
       ${createdAt}, ${deadAt}, ${expiresAt}, $4, $5, 1, $6, $7)`,
    [
      id,
      name,
      Buffer.from(options),
      redacted === undefined ? null : Buffer.from(redacted.args),
      redacted === undefined ? null : Buffer.from(redacted.kwargs),
      orderingKey ?? null,
      orderingKey !== undefined,
    ],
  );
}
