import { digestOf } from '../../src/task/digest.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import { toBytes } from '../../src/task/json.ts';
import { signed } from './forgery.ts';
import type { SeededRandom } from './seeded-random.ts';
import type { Topology } from './topology.ts';

/**
 * What a task does. `ok` and `fails` end done, `discards` too; `poison` always throws; `pill` kills its process;
 * `unroutable` is refused by the broker each time; `raw` is an unreadable message; `impostor` are two
 * messages with one id and different bytes, of which one runs and one is buried; `unstorable` is a message that the ledger
 * refuses, and with it every batch that it is in.
 */
export type TaskKind =
  | 'ok'
  | 'fails'
  | 'discards'
  | 'poison'
  | 'pill'
  | 'unroutable'
  | 'raw'
  | 'impostor'
  | 'unstorable';

/**
 * What keeps follow-ups from being sent. `passing`: the broker refuses them for a while. `lasting`: it refuses them until they
 * are given up. `forbidden`: our own rules do. A follow-up that was given up is a dead letter; an operator opens the gate and
 * revives it.
 */
export type LinkTrouble = 'none' | 'passing' | 'lasting' | 'forbidden';

export interface TaskPlan {
  readonly id: string;
  readonly kind: TaskKind;
  readonly writeAtMs: number;
  readonly isRolledBack: boolean;
  readonly delayMs: number;
  readonly expiresMs: number | null;
  readonly cancelAtMs: number | null;
  /** Sent straight to the broker, as a foreign producer does. */
  readonly isPushed: boolean;
  readonly priority: number;
  readonly queue: string;
  readonly durationMs: number;
  /** Heeds its signal, or goes on regardless. */
  readonly isPolite: boolean;
  readonly checkpoints: number;
  readonly doorSteps: number;
  readonly sends: number;
  readonly hasLink: boolean;
  /** Attempts that throw before one goes through. */
  readonly failures: number;
  /** Its row stays until it is over: it must survive the broker's memory. */
  readonly isDurable: boolean;
  /** Of tasks with the same key a single one runs; null: no key. */
  readonly key: string | null;
}

export const QUEUES = ['mail', 'bulk'] as const;
export const WORK = 'sim.work';
export const PILL = 'sim.pill';
export const CHILD = 'sim.child';
export const KEYED = 'sim.keyed';

const KEYS = ['k1', 'k2'] as const;
/** Those that may just as well end with another's result. */
const MAY_SHARE: readonly TaskKind[] = ['ok', 'fails', 'discards'];

const BODY = '[[],{},{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]';

interface Planning {
  readonly topology: Topology;
  readonly count: number;
  readonly spanMs: number;
  readonly hasLinks: boolean;
}

function drawKind(random: SeededRandom, topology: Topology): TaskKind {
  const roll = random.next();
  if (roll < 0.66) return 'ok';
  if (roll < 0.78) return 'fails';
  if (roll < 0.83) return 'discards';
  if (roll < 0.88) return 'poison';
  if (roll < 0.92) return 'pill';
  if (topology === 'one-database') return 'ok';
  if (roll < 0.96) return 'unroutable';
  return roll < 0.98 ? 'raw' : 'impostor';
}

function planTask(random: SeededRandom, planning: Planning, index: number): TaskPlan {
  const kind = drawKind(random, planning.topology);
  const isForeign = kind === 'raw' || kind === 'impostor';
  const canBePushed = planning.topology === 'separate-broker' && kind !== 'unroutable';
  const isPushed = isForeign || (canBePushed && random.chance(0.12));
  return {
    id: `t${index}`,
    kind,
    writeAtMs: Math.floor(random.next() * planning.spanMs),
    isRolledBack: !isPushed && random.chance(0.15),
    // `park` does not return whose bytes it kept, so impostors come without an eta.
    delayMs: kind !== 'impostor' && random.chance(0.15) ? random.int(500, 15_000) : 0,
    expiresMs: kind !== 'impostor' && random.chance(0.06) ? random.int(2_000, 40_000) : null,
    cancelAtMs: random.chance(0.08) ? Math.floor(random.next() * planning.spanMs) : null,
    isPushed,
    priority: random.chance(0.3) ? random.int(1, 9) : 0,
    queue: random.pick(QUEUES),
    durationMs: random.chance(0.15) ? random.int(3_000, 12_000) : random.int(0, 800),
    isPolite: random.chance(0.7),
    checkpoints: random.chance(0.3) ? random.int(1, 2) : 0,
    doorSteps: random.chance(0.7) ? random.int(1, 2) : 0,
    sends: random.chance(0.15) ? 1 : 0,
    hasLink: planning.hasLinks && kind === 'ok' && random.chance(0.25),
    failures: kind === 'fails' ? random.int(1, 2) : 0,
    isDurable: false,
    key: null,
  };
}

export function planTasks(random: SeededRandom, planning: Planning): TaskPlan[] {
  return Array.from({ length: planning.count }, (_, index) => planTask(random, planning, index));
}

/** Drawn from a separate stream, so that plans without keys stay what they were. */
export function withKeys(tasks: readonly TaskPlan[], random: SeededRandom): TaskPlan[] {
  return tasks.map(plan => {
    const canShare = MAY_SHARE.includes(plan.kind) && !plan.hasLink;
    return canShare && random.chance(0.4) ? { ...plan, key: random.pick(KEYS) } : plan;
  });
}

/** Also from a separate stream. A task that does not go through the outbox has no row that could stay. */
export function withReceipts(tasks: readonly TaskPlan[], random: SeededRandom): TaskPlan[] {
  return tasks.map(plan => ({ ...plan, isDurable: !plan.isPushed && random.chance(0.5) }));
}

/** One that the ledger refuses comes with several that it takes, in one queue and at one moment: so they are one batch. */
export function withUnstorable(
  tasks: readonly TaskPlan[],
  random: SeededRandom,
  writeAtMs: number,
): TaskPlan[] {
  const queue = random.pick(QUEUES);
  const guilty = random.int(0, BATCH - 1);
  const batch = Array.from({ length: BATCH }, (_, index) => ({
    ...CHILD_PLAN,
    id: `b${index}`,
    kind: index === guilty ? ('unstorable' as const) : ('ok' as const),
    isPushed: true,
    writeAtMs,
    queue,
  }));
  return [...tasks, ...batch];
}

const BATCH = 4;

/** A task that another one has sent. */
export const CHILD_PLAN: TaskPlan = {
  id: 'child',
  kind: 'ok',
  writeAtMs: 0,
  isRolledBack: false,
  delayMs: 0,
  expiresMs: null,
  cancelAtMs: null,
  isPushed: false,
  priority: 0,
  queue: 'bulk',
  durationMs: 100,
  isPolite: true,
  checkpoints: 0,
  doorSteps: 1,
  sends: 0,
  hasLink: false,
  failures: 0,
  isDurable: false,
  key: null,
};

/** Other bytes under the id of another task. */
export function digestConflictOf(genuine: Envelope, nowMs: number): Envelope {
  const { name, id, version } = genuine;
  const body = toBytes('[["other"],{},{}]');
  const other = { ...genuine, body, digest: digestOf({ name, id, version, body }) };
  return signed(other, nowMs);
}

const LINK = `{"task":"${CHILD}","args":[],"kwargs":{},"options":{"queue":"bulk"},"subtask_type":null,"immutable":true}`;
const LINKED_BODY = `[[],{},{"callbacks":[${LINK}],"errbacks":null,"chain":null,"chord":null}]`;

/** The bytes of a planned task, written when the wall clock of its producer shows `nowMs`. */
export function envelopeOf(plan: TaskPlan, nowMs: number): Envelope {
  const name = plan.kind === 'pill' ? PILL : plan.key === null ? WORK : KEYED;
  const args = plan.key === null ? '[]' : `["${plan.key}"]`;
  const body = toBytes((plan.hasLink ? LINKED_BODY : BODY).replace('[]', args));
  const envelope: Envelope = {
    id: plan.id,
    name,
    queue: plan.queue,
    priority: plan.priority,
    version: 1,
    body,
    options: toBytes(plan.isDurable ? '{"receipt":true}' : '{}'),
    digest: digestOf({ name, id: plan.id, version: 1, body }),
    etaMs: plan.delayMs > 0 ? nowMs + plan.delayMs : null,
    expiresMs: plan.expiresMs === null ? null : nowMs + plan.expiresMs,
  };
  return signed(envelope, nowMs);
}

/** A follow-up sent through the door. */
export function childEnvelope(id: string, nowMs: number): Envelope {
  const body = toBytes(BODY);
  const envelope: Envelope = {
    id,
    name: CHILD,
    queue: 'bulk',
    priority: 0,
    version: 1,
    body,
    options: toBytes('{}'),
    digest: digestOf({ name: CHILD, id, version: 1, body }),
    etaMs: null,
    expiresMs: null,
  };
  return signed(envelope, nowMs);
}
