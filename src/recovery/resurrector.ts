import type { AdmissionStore } from '../admission/admission-store.ts';
import type { Broker } from '../broker/broker.ts';
import { isUnavailable } from '../errors/error.ts';
import { carryOut, type CarryOutDeps } from '../ledger/carry-out.ts';
import type { AfterEntry, Ledger } from '../ledger/ledger.ts';
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

/** Follow-ups that cannot be sent; with more of them others wait. */
const MOST_STUCK = 10_000;

/** Everything that happens because something died: dead workers' tasks, follow-ups nobody sent, rows to forget. */
export class Resurrector {
  readonly #deps: ResurrectorDeps;
  readonly #reaper: Reaper;
  readonly #housekeeper: Housekeeper;
  readonly #sweeper: PlaceSweeper | null;
  /** Follow-ups that the last look could not carry out: the oldest ones, so the next finds them first. */
  #stuck = 0;

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

  /** What cannot be sent (no permission for its queue) stays, and keeps nothing else from being looked at. */
  async #followUp(): Promise<void> {
    const { ledger, broker, settings, runtime, results } = this.#deps;
    const limit = settings.chunk + this.#stuck;
    const entries = await ledger.after.list(settings.afterDelayMs, limit);
    this.#stuck = 0;
    if (entries.length === 0) return;
    runtime.log.info({ entries: entries.length }, 'repeating follow-ups');
    const follow = {
      nowMs: runtime.clock.now(),
      queueOf: () => null,
      redact: settings.redact ?? null,
      keyring: settings.keyring ?? NO_KEYS,
      answers: broker.reply !== undefined,
    };
    const deps = { broker, ledger, follow, ...(results ? { results } : {}) };
    const done = await carryOut(entries, deps).catch(async (error: unknown) => {
      if (isUnavailable(error)) throw error;
      runtime.log.error({ error }, 'follow-ups failed together; each is tried alone');
      return await this.#followEach(entries, deps);
    });
    this.#stuck = Math.min(entries.length - done, MOST_STUCK);
  }

  async #followEach(entries: readonly AfterEntry[], deps: CarryOutDeps): Promise<number> {
    let done = 0;
    for (const entry of entries) {
      try {
        done += await carryOut([entry], deps);
      } catch (error) {
        if (isUnavailable(error)) throw error;
        const { key } = entry;
        this.#deps.runtime.log.error({ error, key }, 'a follow-up cannot be carried out');
      }
    }
    return done;
  }
}
