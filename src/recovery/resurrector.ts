import type { AdmissionStore } from '../admission/admission-store.ts';
import type { Broker } from '../broker/broker.ts';
import { DestinationGuard } from '../broker/destination-guard.ts';
import { isUnavailable } from '../errors/error.ts';
import type { Destinations } from '../ledger/destinations.ts';
import type {
  OperatorLedger,
  RecoveryLedger,
  WorkerLedger,
  WorkflowLedger,
} from '../ledger/ledger.ts';
import type { ResultStore } from '../result/result-store.ts';
import { type Runtime, sleep } from '../runtime/runtime.ts';
import { RetryPace } from '../runtime/backoff.ts';
import type { Keyring } from '../task/keyring.ts';
import type { Redact } from '../task/redact.ts';
import { Reaper, type ReaperSettings } from '../ledger/reaper.ts';
import { FollowUpRepeater } from './follow-up-repeater.ts';
import type { KeptFences } from './keep-fences.ts';
import { type DeadLetterAge, Housekeeper, type KeptKeys, type KeptOutbox } from './housekeeper.ts';
import { Refusals } from './refusals.ts';
import { ReservationSweeper } from './reservation-sweeper.ts';

export interface ResurrectorSettings extends ReaperSettings {
  readonly intervalMs: number;
  /** How old an unfinished follow-up must be before it is repeated. */
  readonly afterDelayMs: number;
  /** How long a task that was set aside waits for a worker that can run it. */
  readonly unknownTaskTimeoutMs: number;
  /** Left out: people see the arguments of follow-ups unredacted. */
  readonly redact?: Redact | null;
  /** Signs follow-ups. Left out: they are not signed. */
  readonly keyring?: Keyring;
  /** Which dead letters are deleted; null: none. */
  readonly deadLetterAge: DeadLetterAge | null;
}

export interface ResurrectorDeps {
  readonly ledger: RecoveryLedger &
    WorkflowLedger &
    Pick<WorkerLedger, 'bury' | 'wake'> &
    Pick<OperatorLedger, 'purgeDead'>;
  readonly broker: Broker;
  readonly outbox: KeptOutbox;
  readonly keys: KeptKeys;
  /** Reports why a task is dead to the processes that wait for it. */
  readonly results?: ResultStore;
  /** Where messages may have us write. Left out: anywhere. */
  readonly destinations?: Destinations;
  /** Left out: nothing is limited. */
  readonly admission?: AdmissionStore;
  /** Null: the task rows are the fences. */
  readonly fences?: KeptFences | null;
  readonly runtime: Runtime;
  readonly settings: ResurrectorSettings;
}

/** After passes that failed; never more often than regular ones. */
const STORE_RETRY = { baseMs: 500, maxMs: 5_000 };

/**
 * Everything that recovers from a death: tasks of dead workers, unsent follow-ups, rows to delete. Each has its own loop:
 * a broker that confirms nothing must not keep the tasks of a lost host from being brought back.
 */
export class Resurrector {
  readonly #deps: ResurrectorDeps;
  readonly #reaper: Reaper;
  readonly #repeater: FollowUpRepeater;
  readonly #housekeeper: Housekeeper;
  readonly #sweeper: ReservationSweeper | null;
  readonly #refusals: Refusals;

  constructor(deps: ResurrectorDeps) {
    this.#deps = deps;
    this.#reaper = new Reaper(deps.ledger, deps.runtime, deps.settings);
    this.#repeater = new FollowUpRepeater(deps);
    const { ledger, outbox, keys, fences = null, runtime, settings } = deps;
    const { deadLetterAge } = settings;
    this.#housekeeper = new Housekeeper({ ledger, outbox, keys, fences, deadLetterAge, runtime });
    const timeoutMs = settings.unknownTaskTimeoutMs;
    this.#refusals = new Refusals({
      ledger,
      broker: bounded(deps.broker, runtime),
      runtime,
      timeoutMs,
    });
    const { admission } = deps;
    this.#sweeper = admission ? new ReservationSweeper(admission, ledger, runtime) : null;
  }

  /** A loop that fails for good ends the others. */
  async run(signal: AbortSignal): Promise<void> {
    const broken = new AbortController();
    const either = AbortSignal.any([signal, broken.signal]);
    const loops = this.#looks.map(look => this.#repeat(look, either));
    try {
      await Promise.all(loops);
    } finally {
      broken.abort();
      await Promise.allSettled(loops);
    }
  }

  /** One pass of everything. */
  async look(): Promise<void> {
    for (const look of this.#looks) await look();
  }

  get #looks(): readonly (() => Promise<unknown>)[] {
    return [
      () => this.#reaper.look(),
      () => this.#repeater.look(),
      () => this.#refusals.look(),
      async () => {
        await this.#housekeeper.look();
        await this.#sweeper?.look();
      },
    ];
  }

  async #repeat(look: () => Promise<unknown>, signal: AbortSignal): Promise<void> {
    const { runtime, settings } = this.#deps;
    const pace = new RetryPace(runtime, STORE_RETRY, {
      failing: 'the store cannot be used; no task is brought back',
      over: 'the store can be used again',
    });
    while (!signal.aborted) {
      let waitMs = settings.intervalMs;
      try {
        await look();
        pace.succeeded();
      } catch (error) {
        if (!isUnavailable(error)) throw error;
        waitMs = Math.max(waitMs, pace.failed(error));
      }
      await sleep(runtime.clock, waitMs, signal);
    }
  }
}

/** How long a confirm may take. */
const LIMIT_MS = 5_000;

/** The same broker, with a limit on how long a confirm is waited for. */
function bounded(broker: Broker, { clock }: Runtime): Pick<Broker, 'publish' | 'silentMs'> {
  const guard = new DestinationGuard(broker, clock);
  const silentMs = broker.silentMs?.bind(broker);
  return {
    publish: (messages, manner) => guard.publish(messages, LIMIT_MS, manner),
    ...(silentMs ? { silentMs } : {}),
  };
}
