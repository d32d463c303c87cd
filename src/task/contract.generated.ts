// Written by scripts/write-options.mjs from the tables in src/options; edit those and run npm run build.
import type { ContractAdmission } from './contract-admission.ts';
import type { Idempotency } from './idempotency.ts';
import type { Ordering } from './ordering.ts';
import type { Slo } from './slo.ts';
import type { StandardSchema } from './standard-schema.ts';

/** What a contract says, checked and with defaults. */
export interface Contract {
  readonly input: StandardSchema | null;
  readonly result: StandardSchema | null;
  readonly args: StandardSchema | null;
  readonly kwargs: StandardSchema | null;
  readonly params: readonly string[] | null;
  readonly version: number;
  readonly queue: string;
  readonly priority: number;
  readonly timeoutMs: number | null;
  readonly softTimeoutMs: number | null;
  readonly expiresMs: number | null;
  readonly ordering: Ordering | null;
  readonly idempotent: Idempotency | null;
  readonly admission: ContractAdmission | null;
  readonly slo: Slo | null;
  readonly durability: 'broker' | 'end-to-end';
}
