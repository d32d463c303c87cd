import type { MemoryTransaction } from '../../src/testing/memory/memory-transaction.ts';
import { sleep } from '../../src/runtime/runtime.ts';
import { task } from '../../src/task/define-task.ts';
import { unchecked } from '../../src/task/standard-schema.ts';
import { discard } from '../../src/task/verdict.ts';
import type { TaskContext } from '../../src/worker/context.ts';
import type { HandlerOrigin } from '../../src/worker/effects/door.ts';
import { defineHandler, type Handler } from '../../src/worker/handler.ts';
import type { Machine } from './host.ts';
import { remoteDoor } from './ports.ts';
import type { Stores } from './stores.ts';
import { CHILD, childEnvelope, KEYED, PILL, WORK, type TaskPlan } from './task-plan.ts';
import type { Truth } from './truth.ts';

type Verdict = ReturnType<typeof discard>;

const RETRY = { maxAttempts: 3, backoff: '400ms', maxBackoff: '2s' } as const;
const contracts = {
  work: task(WORK),
  pill: task(PILL),
  child: task(CHILD),
  keyed: task(KEYED, { input: unchecked<string>(), idempotent: true }),
};
/** A healthy task must never die of other processes' crashes here, so that every death is a finding. */
const ENDLESS = 1_000;
const PILL_BUDGET = 2;

/** The handlers of one worker process: what a task does is written in its plan. An old one has no handler for children. */
export function makeHandlers(
  machine: Machine,
  truth: Truth,
  stores: Stores,
  isOld: boolean,
): ReadonlyMap<string, Handler> {
  const origin = makeOrigin(machine, truth, stores);
  const run = async (_: unknown, ctx: TaskContext): Promise<Verdict | undefined> => {
    const queue = stores.ledger.state.records.get(ctx.id)?.envelope?.queue ?? '';
    const leave = stores.crowd.enter(queue, { id: ctx.id, epoch: ctx.epoch });
    try {
      return await perform(ctx, machine, truth);
    } finally {
      leave();
    }
  };
  const handler = (name: keyof typeof contracts, maxResurrections: number): Handler =>
    defineHandler(contracts[name], { run, retry: RETRY, maxResurrections }, origin);
  return new Map([
    [WORK, handler('work', ENDLESS)],
    ...(isOld ? [] : [[CHILD, handler('child', ENDLESS)] as const]),
    [PILL, handler('pill', PILL_BUDGET)],
    [KEYED, handler('keyed', ENDLESS)],
  ]);
}

/** Effects and sends of a handler: rows in the stores, in one transaction opened over the network. */
function makeOrigin(machine: Machine, truth: Truth, stores: Stores): HandlerOrigin {
  return {
    door: ({ faultPoint }) => remoteDoor(stores.effects, machine.call('ledger'), faultPoint),
    sendInside: async tx => {
      const id = `sent.${machine.random.token()}`;
      const inside = tx as MemoryTransaction;
      stores.send(inside, childEnvelope(id, machine.process.clock.now()));
      inside.write(() => truth.onCommitted(id, 'ok'));
      return id;
    },
  };
}

async function perform(
  ctx: TaskContext,
  machine: Machine,
  truth: Truth,
): Promise<Verdict | undefined> {
  const { clock } = machine.process;
  const plan = truth.planOf(ctx.id);
  truth.onExecuted(ctx.id);
  const last = ctx.lastCheckpoint as { readonly page: number } | undefined;
  for (let page = last?.page ?? 0; page < plan.checkpoints; page++)
    await ctx.checkpoint({ page: page + 1 });
  await sleep(clock, plan.durationMs, plan.isPolite ? ctx.signal : undefined);
  if (plan.isPolite && ctx.signal.aborted) throw new Error('aborted');
  if (plan.kind === 'pill') return await swallow(machine, truth);
  for (let step = 1; step <= plan.doorSteps; step++) {
    await ctx.transaction(async () => step, { step: `step-${step}` });
  }
  if (plan.sends > 0) await ctx.send(contracts.child);
  return outcomeOf(plan, ctx.attempt);
}

function outcomeOf(plan: TaskPlan, attempt: number): Verdict | undefined {
  if (plan.kind === 'poison') throw new Error('never works');
  if (attempt <= plan.failures) throw new Error('not yet');
  return plan.kind === 'discards' ? discard('nothing to do') : undefined;
}

/** The task takes its process with it. */
function swallow(machine: Machine, truth: Truth): Promise<never> {
  truth.onPill();
  machine.process.end();
  return new Promise(() => undefined);
}
