import { isOutlastError, outlastError } from '../errors/error.ts';
import { itemsOf, membersOf } from '../task/json-slices.ts';
import { readEmbed, readSignature } from '../task/signature.ts';

/** Messages that may follow one task at once. */
const MOST_FOLLOW_UPS = 10_000;
/** All of them together: each header task of a chord has a copy of the body, and each link one of the result. */
const MOST_FOLLOW_UP_BYTES = 16 * 1_048_576;
/** Groups, chords and chains inside of each other. Every level is read once more. */
const MOST_NESTED = 32;

/** What its context adds to every task that is sent, in characters. */
interface WeighContext {
  readonly argument: number;
  readonly chain: number;
  readonly chord: number;
  /** Error links of the signatures around it. */
  readonly links: number;
  readonly depth: number;
}

/**
 * Adds up the size of what would be sent, without creating any of it: half a megabyte can ask for gigabytes. Throws
 * ERR_FOLLOW_UPS_TOO_LARGE, or a plain error if it cannot be read.
 */
class Scale {
  #followUps = 0;
  #bytes = 0;

  weigh(text: string, context: WeighContext): void {
    if (context.depth > MOST_NESTED) throw this.#tooLarge(`nested ${MOST_NESTED} levels deep`);
    const { task, kwargs, options, isImmutable } = readSignature(text);
    const argument = isImmutable ? 0 : context.argument;
    // Each task inside gets a copy of what the signature itself is linked to.
    const links = context.links + lengthOf(options.get('link_error'));
    const inner = { ...context, argument, links, depth: context.depth + 1 };
    const linked = lengthOf(options.get('link'));
    const after = context.chain + lengthOf(options.get('chain'));
    switch (task) {
      case 'celery.group': {
        const chord = context.chord || lengthOf(options.get('chord'));
        return this.#weighAll(tasksOf(kwargs), { ...inner, chain: 0, chord });
      }
      case 'celery.chord':
        return this.#weighChord(kwargs, { ...inner, chain: after, links: links + linked });
      case 'celery.chain': {
        const [first, ...rest] = tasksOf(kwargs);
        if (first === undefined) return this.add(after);
        if (rest.length === 0) return this.weigh(first, { ...inner, chain: after });
        const chain = after + context.chord + sum(rest) + links * rest.length + linked;
        return this.weigh(first, { ...inner, chain, chord: 0 });
      }
      default:
        this.add(text.length + argument + context.chain + context.chord + context.links);
    }
  }

  #weighChord(kwargs: string, context: WeighContext): void {
    const parts = membersOf(kwargs);
    const body = parts.get('body') ?? 'null';
    const header = parts.get('header') ?? '[]';
    const tasks = header.startsWith('[') ? itemsOf(header) : tasksOf(readSignature(header).kwargs);
    if (tasks.length === 0) return this.weigh(body, { ...context, argument: 2 });
    const chord = body.length + context.chain + context.chord + context.links;
    this.#weighAll(tasks, { ...context, chain: 0, chord });
  }

  #weighAll(texts: readonly string[], context: WeighContext): void {
    for (const text of texts) this.weigh(text, context);
  }

  add(bytes: number): void {
    this.#followUps += 1;
    this.#bytes += bytes;
    if (this.#followUps > MOST_FOLLOW_UPS) throw this.#tooLarge(`${MOST_FOLLOW_UPS} messages`);
    if (this.#bytes > MOST_FOLLOW_UP_BYTES)
      throw this.#tooLarge(`${MOST_FOLLOW_UP_BYTES / 1_048_576} MiB`);
  }

  #tooLarge(what: string): Error {
    return outlastError('ERR_FOLLOW_UPS_TOO_LARGE', {
      message: `what follows the task would be more than ${what}, so nothing of it is sent`,
      hint: 'Send fewer or smaller follow-ups: pass an id instead of the data, or cut the workflow into several.',
      fields: { followUps: this.#followUps, bytes: this.#bytes },
    });
  }
}

const sum = (texts: readonly string[]): number =>
  texts.reduce((total, text) => total + text.length, 0);

const lengthOf = (text: string | undefined): number =>
  text === undefined || text === 'null' ? 0 : text.length;

function tasksOf(kwargs: string): readonly string[] {
  const tasks = membersOf(kwargs).get('tasks') ?? 'null';
  if (tasks === 'null') return [];
  return tasks.startsWith('[') ? itemsOf(tasks) : [tasks];
}

/** `argument` is the length of the result that the task passes to its follow-ups. */
export function weighFollowUps(body: Uint8Array, argument: number): void {
  if (isSurelyLight(body, argument)) return;
  const { callbacks, errbacks, chain, chord } = readEmbed(body);
  const scale = new Scale();
  const context: WeighContext = { argument, chain: 0, chord: 0, links: 0, depth: 0 };
  for (const text of [...callbacks, ...errbacks]) scale.weigh(text, context);
  const next = chain?.at(-1);
  if (next !== undefined) scale.weigh(next, { ...context, chain: sum(chain?.slice(0, -1) ?? []) });
  if (chord !== null) scale.add(chord.length);
}

/** Whether `weighFollowUps` refuses it. */
export function isTooMuch(body: Uint8Array, argument: string): boolean {
  try {
    weighFollowUps(body, argument.length);
    return false;
  } catch (error) {
    if (isOutlastError(error, 'ERR_FOLLOW_UPS_TOO_LARGE')) return true;
    throw error;
  }
}

/** The same for a single signature, such as the body of a chord. */
export function weighSignature(text: string, argument: number): void {
  new Scale().weigh(text, { argument, chain: 0, chord: 0, links: 0, depth: 0 });
}

const BRACE = 0x7b;

/**
 * True for nearly all: every task to send has its own brace and every level two, and none is longer than twice the whole.
 */
function isSurelyLight(body: Uint8Array, argument: number): boolean {
  let braces = 0;
  for (const byte of body) if (byte === BRACE && ++braces > 2 * MOST_NESTED) return false;
  return braces * (2 * body.length + argument) <= MOST_FOLLOW_UP_BYTES;
}
