import { itemsOf, membersOf } from '../task/json-slices.ts';
import { safeKey } from '../task/names.ts';
import { readSignature, type Signature } from '../task/signature.ts';
import { encodeReport, type Reply, type ReportedEnd } from '../wire/reply.ts';
import { textIn } from './expand-signature.ts';

/** A task that is never sent, because one before it ended without a result. A caller may wait for it. */
export interface NeverSent {
  readonly id: string;
  /** Where its caller waits; null: not at a queue. */
  readonly replyTo: string | null;
  readonly correlationId: string;
}

/** As many as may follow one task, and as deep. */
const MOST_STEPS = 10_000;
const MOST_NESTED = 32;

/**
 * The tasks with an id of their own in these signatures, also those inside of groups, chords and chains, and in what follows
 * them. Celery marks them as failed with the task before them, so that no caller waits for what never comes.
 */
export function neverSent(texts: readonly string[]): readonly NeverSent[] {
  const found = new Map<string, NeverSent>();
  for (const text of texts) collect(text, found, 0);
  return [...found.values()];
}

function collect(text: string, found: Map<string, NeverSent>, depth: number): void {
  if (depth > MOST_NESTED || found.size >= MOST_STEPS) return;
  try {
    const signature = readSignature(text);
    for (const inner of innerOf(signature)) collect(inner, found, depth + 1);
    const isPlain = signature.task !== 'celery.group' && signature.task !== 'celery.chord';
    const step = isPlain ? stepOf(signature) : null;
    if (step !== null) found.set(step.id, step);
  } catch {
    // What cannot be read has no caller that we could answer.
  }
}

function innerOf({ task, kwargs, options }: Signature): readonly string[] {
  const rest = listOf(options.get('chain'));
  const members = membersOf(kwargs);
  if (task === 'celery.chain' || task === 'celery.group')
    return [...listOf(members.get('tasks')), ...rest];
  if (task !== 'celery.chord') return rest;
  return [...listOf(members.get('header')), ...listOf(members.get('body')), ...rest];
}

function listOf(text = 'null'): readonly string[] {
  if (text === 'null') return [];
  return text.startsWith('[') ? itemsOf(text) : [text];
}

function stepOf({ options }: Signature): NeverSent | null {
  const id = textIn(options, 'task_id');
  if (id === null || options.get('ignore_result') === 'true') return null;
  return {
    id: safeKey(id, 'the id of what follows'),
    replyTo: textIn(options, 'reply_to'),
    correlationId: textIn(options, 'correlation_id') ?? id,
  };
}

/** What all answers to the callers of one failed chain may weigh together. */
const MOST_BYTES = 4 * 1_048_576;
const BRIEF = 200;

/** The same end for many callers: shorter if there are so many that one short message would make us send megabytes. */
export function endForMany(told: ReportedEnd, count: number): ReportedEnd {
  if (told.status !== 'FAILURE') return told;
  const { error } = told;
  if ((error.message.length + error.traceback.length) * count <= MOST_BYTES) return told;
  return { ...told, error: { ...error, message: error.message.slice(0, BRIEF), traceback: '' } };
}

/** The answers to the callers that wait at queues. */
export function repliesOf(steps: readonly NeverSent[], told: ReportedEnd): readonly Reply[] {
  const waiting = steps.filter(({ replyTo }) => replyTo !== null);
  const report = endForMany(told, waiting.length);
  return waiting.map(({ id, replyTo, correlationId }) => ({
    replyTo: replyTo ?? '',
    correlationId,
    body: encodeReport(id, report),
  }));
}
