import { isOutlastError, isUnavailable } from '../../src/errors/error.ts';
import { sleep } from '../../src/runtime/runtime.ts';
import { Scheduler } from '../../src/schedule/scheduler.ts';
import { ScheduleOperations } from '../../src/schedule/schedules.ts';
import { MemoryLedgerReads } from '../../src/testing/memory/memory-ledger-reads.ts';
import { MemoryOutboxReads } from '../../src/testing/memory/memory-outbox-reads.ts';
import { KEYRING } from './forgery.ts';
import { makeMachine, type Host, type Machine } from './host.ts';
import { remoteSchedules } from './ports.ts';
import type { Intent } from './slot-book.ts';
import { specOf, type Errand } from './timetable.ts';

export function makeScheduler({ stores, mutant }: Host, machine: Machine): Scheduler {
  const { runtime, process, call } = machine;
  const { schedules, slots, outbox, ledger } = stores;
  const store = remoteSchedules(
    schedules.through(runtime.faultPoint),
    call('outbox'),
    (change, toldMs) => slots.announce(change, { by: 'scheduler', toldMs }),
  );
  const [outboxReads, ledgerReads] = [new MemoryOutboxReads(outbox), new MemoryLedgerReads(ledger)];
  const [ofOutbox, ofLedger] = [call('outbox'), call('ledger')];
  const knowsNone = mutant?.overlapsAsksOutboxOnly ?? false;
  return new Scheduler({
    store: mutant?.wrapSchedules?.(store, process.clock) ?? store,
    outboxReads: { find: id => ofOutbox(() => outboxReads.find(id)) },
    ledgerReads: {
      states: async ids =>
        knowsNone ? ids.map(() => null) : await ofLedger(() => ledgerReads.states(ids)),
    },
    keyring: KEYRING,
    runtime,
  });
}

/** An operator puts, pauses and removes schedules. It lives as long as the run, but its calls get lost like all others. */
export function keepSchedules(host: Host): void {
  const { plan, time, checker } = host;
  if (plan.errands.length === 0) return;
  const machine = makeMachine(host, 'timekeeper');
  for (const errand of plan.errands)
    time.after(
      errand.atMs,
      () =>
        void run(host, machine, errand).catch((error: unknown) =>
          checker.report('broke', `${errand.act.do} ${errand.name}: ${String(error)}`),
        ),
    );
}

const TRIES = 4;

async function run(host: Host, machine: Machine, errand: Errand): Promise<void> {
  for (let attempt = 1; attempt <= TRIES; attempt++) {
    try {
      return await carryOut(host, machine, errand);
    } catch (error) {
      // Nobody has put it yet, or another errand has removed it.
      if (isOutlastError(error, 'ERR_SCHEDULE_UNKNOWN')) return;
      if (!isUnavailable(error)) throw error;
      await sleep(machine.process.clock, 300);
    }
  }
}

async function carryOut(host: Host, machine: Machine, { name, act }: Errand): Promise<void> {
  const { slots, schedules } = host.stores;
  const intent = act.do === 'put' ? { by: act.do, timetable: act.timetable } : { by: act.do };
  const store = remoteSchedules(schedules.through(), machine.call('outbox'), (change, toldMs) =>
    slots.announce(change, { ...intent, toldMs } satisfies Intent),
  );
  const compose = { maxPayloadBytes: 10_000, redact: null };
  const operations = new ScheduleOperations({
    store,
    keyring: KEYRING,
    random: machine.random,
    compose,
  });
  if (act.do !== 'put') return void (await operations[act.do](name));
  const spec = specOf(name, act.timetable);
  const prepared = await operations.prepare(host.mutant?.wrapSpec?.(spec) ?? spec);
  await operations.put(prepared, { origin: 'api' });
}
