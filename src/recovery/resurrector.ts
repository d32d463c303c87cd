import type { AdmissionStore } from '../admission/admission-store.ts';
import type { Broker } from '../broker/broker.ts';
import { isUnavailable } from '../errors/error.ts';
import { carryOut } from '../ledger/carry-out.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { ResultStore } from '../result/result-store.ts';
import { sleep } from '../runtime/clock.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { NO_KEYS, type Keyring } from '../task/keyring.ts';
import type { Redact } from '../task/redact.ts';
import { Reaper, type ReaperSettings } from '../ledger/reaper.ts';
import type { KeptFences } from './keep-fences.ts';
import { Housekeeper, type DeadLetterAge, type KeptKeys, type KeptOutbox } from './housekeeper.ts';
import { PlaceSweeper } from './place-sweeper.ts';

export interface ResurrectorSettings extends ReaperSettings {
  readonly intervalMs: number;
  /** How old an unfinished follow-up must be before it is repeated. */
  readonly afterDelayMs: number;
  /** Left out: people see the arguments of follow-ups themselves. */
  readonly redact?: Redact | null;
  /** Signs follow-ups. Left out: nobody does. */
  readonly keyring?: Keyring;
  /** Which dead letters are deleted; null: none. */
  readonly deadLetterAge: DeadLetterAge | null;
}

export interface ResurrectorDeps {
  readonly ledger: Ledger;
  readonly broker: Broker;
  readonly outbox: KeptOutbox;
  readonly keys: KeptKeys;
  /** Says why a task is dead, to those who wait for it. */
  readonly results?: ResultStore;
  /** Left out: nothing is limited. */
  readonly admission?: AdmissionStore;
  /** Null: the task rows are the fences. */
  readonly fences?: KeptFences | null;
  readonly runtime: Runtime;
  readonly settings: ResurrectorSettings;
}

/** Everything that happens because something died: dead workers' tasks, follow-ups nobody sent, rows to forget. */
export class Resurrector {
  readonly #deps: ResurrectorDeps;
  readonly #reaper: Reaper;
  readonly #housekeeper: Housekeeper;
  readonly #sweeper: PlaceSweeper | null;

  constructor(deps: ResurrectorDeps) {
    this.#deps = deps;
    this.#reaper = new Reaper(deps.ledger, deps.runtime, deps.settings);
    const { ledger, outbox, keys, fences = null, runtime, settings } = deps;
    const { deadLetterAge } = settings;
    this.#housekeeper = new Housekeeper({ ledger, outbox, keys, fences, deadLetterAge, runtime });
    const { admission } = deps;
    this.#sweeper = admission ? new PlaceSweeper(admission, ledger, runtime) : null;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#deps.runtime;
    while (!signal.aborted) {
      try {
        await this.look();
      } catch (error) {
        if (!isUnavailable(error)) throw error;
        log.warn({ error }, 'the store cannot be used');
      }
      await sleep(clock, this.#deps.settings.intervalMs, signal);
    }
  }

  /** One look at everything. */
  async look(): Promise<void> {
    await this.#reaper.look();
    await this.#followUp();
    await this.#housekeeper.look();
    await this.#sweeper?.look();
  }

  async #followUp(): Promise<void> {
    const { ledger, broker, settings, runtime, results } = this.#deps;
    const entries = await ledger.after.list(settings.afterDelayMs, settings.chunk);
    if (entries.length === 0) return;
    runtime.log.info({ entries: entries.length }, 'repeating follow-ups');
    const follow = {
      nowMs: runtime.clock.now(),
      queueOf: () => null,
      redact: settings.redact ?? null,
      keyring: settings.keyring ?? NO_KEYS,
      answers: broker.reply !== undefined,
    };
    await carryOut(entries, { broker, ledger, follow, ...(results ? { results } : {}) });
  }
}
