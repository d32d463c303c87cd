import { digestOf } from '../../src/task/digest.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import { toBytes } from '../../src/task/json.ts';
import type { SeededRandom } from './seeded-random.ts';
import type { Topology } from './topology.ts';

/**
 * What a task does. `ok` and `fails` end done, `discards` too; `poison` always throws; `pill` kills its process;
 * `unroutable` is refused by the broker each time; `raw` is a message nobody can read; `impostor` are two
 * messages with one id and different bytes, of which one runs and one is buried.
 */
export type TaskKind =
  | 'ok'
  | 'fails'
  | 'discards'
  | 'poison'
  | 'pill'
  | 'unroutable'
  | 'raw'
  | 'impostor';

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
  /** Of tasks with the same one a single one runs; null: its duplicates are nobody's concern. */
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
  const canBePushed = planning.topology === 'broker-apart' && kind !== 'unroutable';
  const isPushed = isForeign || (canBePushed && random.chance(0.12));
  return {
    id: `t${index}`,
    kind,
    writeAtMs: Math.floor(random.next() * planning.spanMs),
    isRolledBack: !isPushed && random.chance(0.15),
    // `park` does not tell whose bytes it kept, so impostors come without an eta.
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

/** Drawn apart, so that plans without keys stay what they were. */
export function withKeys(tasks: readonly TaskPlan[], random: SeededRandom): TaskPlan[] {
  return tasks.map(plan => {
    const canShare = MAY_SHARE.includes(plan.kind) && !plan.hasLink;
    return canShare && random.chance(0.4) ? { ...plan, key: random.pick(KEYS) } : plan;
  });
}

/** Drawn apart likewise. What does not go through the outbox has no row that could stay. */
export function withReceipts(tasks: readonly TaskPlan[], random: SeededRandom): TaskPlan[] {
  return tasks.map(plan => ({ ...plan, isDurable: !plan.isPushed && random.chance(0.5) }));
}

/** Other bytes under the id of another task. */
export function impostorOf(genuine: Envelope): Envelope {
  const { name, id, version } = genuine;
  const body = toBytes('[["other"],{},{}]');
  return { ...genuine, body, digest: digestOf({ name, id, version, body }) };
}

const LINK = `{"task":"${CHILD}","args":[],"kwargs":{},"options":{"queue":"bulk"},"subtask_type":null,"immutable":true}`;
const LINKED_BODY = `[[],{},{"callbacks":[${LINK}],"errbacks":null,"chain":null,"chord":null}]`;

/** The bytes of a planned task, written when the wall clock of its producer shows `nowMs`. */
export function envelopeOf(plan: TaskPlan, nowMs: number): Envelope {
  const name = plan.kind === 'pill' ? PILL : plan.key === null ? WORK : KEYED;
  const args = plan.key === null ? '[]' : `["${plan.key}"]`;
  const body = toBytes((plan.hasLink ? LINKED_BODY : BODY).replace('[]', args));
  return {
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
}

/** A follow-up sent through the door. */
export function childEnvelope(id: string): Envelope {
  const body = toBytes(BODY);
  return {
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
}
