import { outlastError } from '../errors/error.ts';
import type { InputIssue } from '../errors/codes.ts';
import type { Contract } from './contract.ts';
import { decodePython, encodeJson, toBytes, toText } from './json.ts';
import { jsonFault } from './json-limits.ts';
import type { Soon } from './names.ts';
import { type StandardSchema, formatPath } from './standard-schema.ts';

/** The JSON texts of a call's arguments, as Celery carries them. */
export interface WireCall {
  readonly args: string;
  readonly kwargs: string;
}

const RAW: unique symbol = Symbol.for('outlast.raw-call') as never;

/** An input that is JSON text already, for tools that send what a person typed: `1.0` stays `1.0`. */
export function rawCall(args: string, kwargs: string): unknown {
  return { [RAW]: { args, kwargs } satisfies WireCall };
}

interface ArgsInput {
  readonly args?: unknown;
  readonly kwargs?: unknown;
}

/**
 * Checks an input and returns its wire form. The input is stored as given: the worker validates again and hands the
 * schema's output to the handler. Synchronous if the schema is.
 */
export function encodeInput(name: string, contract: Contract, input: unknown): Soon<WireCall> {
  if (typeof input === 'object' && input !== null && RAW in input)
    return encodeRaw(name, contract, input[RAW] as WireCall);
  if (contract.args || contract.kwargs) return encodeArgs(name, contract, input ?? {});
  if (!contract.input) {
    if (input !== undefined)
      throw invalidInput(name, [{ path: '', message: 'this task takes no input' }]);
    return { args: '[]', kwargs: '{}' };
  }
  const checked = check(name, contract.input, input);
  return checked instanceof Promise ? checked.then(() => callOf(input)) : callOf(input);
}

const callOf = (input: unknown): WireCall =>
  isPlainObject(input)
    ? { args: '[]', kwargs: encodeJson(input) }
    : { args: `[${encodeJson(input)}]`, kwargs: '{}' };

/** The input itself, also if it was given as JSON text. */
export function plainInput(contract: Contract, input: unknown): unknown {
  if (typeof input !== 'object' || input === null || !(RAW in input)) return input;
  const { args, kwargs } = input[RAW] as WireCall;
  return inputFromCall(contract, decodeBody(toBytes(`[${args},${kwargs},null]`)));
}

async function encodeRaw(name: string, contract: Contract, call: WireCall): Promise<WireCall> {
  const body = toBytes(`[${call.args},${call.kwargs},null]`);
  const fault = jsonFault(body);
  if (fault !== null) throw invalidInput(name, [{ path: '', message: fault }]);
  const incoming = decodeBody(body);
  await parseInput(name, contract, inputFromCall(contract, incoming));
  return call;
}

async function encodeArgs(name: string, contract: Contract, input: ArgsInput): Promise<WireCall> {
  const args = input.args ?? [];
  const kwargs = input.kwargs ?? {};
  if (contract.args) await check(name, contract.args, args);
  if (contract.kwargs) await check(name, contract.kwargs, kwargs);
  return { args: encodeJson(args), kwargs: encodeJson(kwargs) };
}

/** Arguments read from a body, before any schema saw them. */
export interface IncomingCall {
  readonly args: readonly unknown[];
  readonly kwargs: Readonly<Record<string, unknown>>;
}

/** Reads Celery's `[args, kwargs, embed]`; throws a plain error when the bytes are not that. */
export function decodeBody(body: Uint8Array): IncomingCall {
  const parsed = decodePython(toText(body));
  if (!Array.isArray(parsed)) throw new TypeError('the body is not a JSON array');
  const [args, kwargs] = parsed as unknown[];
  if (!Array.isArray(args)) throw new TypeError('args is not an array');
  if (!isPlainObject(kwargs)) throw new TypeError('kwargs is not an object');
  return { args, kwargs };
}

/** The input a contract sees in a call: names for positional arguments, or the lone argument itself. */
export function inputFromCall(contract: Contract, call: IncomingCall): unknown {
  if (contract.args || contract.kwargs) return { args: call.args, kwargs: call.kwargs };
  const { args, kwargs } = call;
  if (args.length === 0)
    return contract.input || Object.keys(kwargs).length > 0 ? kwargs : undefined;
  if (contract.params && args.length <= contract.params.length) {
    const named = contract.params.slice(0, args.length).map((param, index) => [param, args[index]]);
    return { ...kwargs, ...(Object.fromEntries(named) as object) };
  }
  if (args.length === 1 && Object.keys(kwargs).length === 0) return args[0];
  throw new TypeError(`${args.length} positional arguments and no names for them`);
}

/** What the handler gets: the schema's output. Synchronous if the schema is. */
export function parseInput(name: string, contract: Contract, input: unknown): unknown {
  if (contract.args || contract.kwargs) return parseArgs(name, contract, input as ArgsInput);
  return contract.input ? check(name, contract.input, input) : undefined;
}

async function parseArgs(name: string, contract: Contract, input: ArgsInput): Promise<ArgsInput> {
  const { args, kwargs } = input;
  const parsed: { args?: unknown; kwargs?: unknown } = {};
  if (contract.args) parsed.args = await check(name, contract.args, args);
  if (contract.kwargs) parsed.kwargs = await check(name, contract.kwargs, kwargs);
  return parsed;
}

/** The schema's output, or `ERR_INPUT_INVALID` with every issue and its path. Synchronous if the schema is. */
export function check(name: string, schema: StandardSchema, value: unknown): unknown {
  const checked = validate(schema, value);
  return checked instanceof Promise
    ? checked.then(late => outputOf(name, late))
    : outputOf(name, checked);
}

function outputOf(name: string, checked: Checked): unknown {
  if ('value' in checked) return checked.value;
  throw invalidInput(name, checked.issues);
}

export type Checked = { readonly value: unknown } | { readonly issues: readonly InputIssue[] };

/** Synchronous if the schema is: a promise for each of a thousand short tasks would cost more than the tasks. */
export function validate(schema: StandardSchema, value: unknown): Checked | Promise<Checked> {
  const verdict = schema['~standard'].validate(value);
  return 'then' in verdict ? Promise.resolve(verdict).then(readVerdict) : readVerdict(verdict);
}

type Verdict = Awaited<ReturnType<StandardSchema['~standard']['validate']>>;

function readVerdict(verdict: Verdict): Checked {
  if (!verdict.issues) return { value: verdict.value };
  return {
    issues: verdict.issues.map(issue => ({ path: formatPath(issue.path), message: issue.message })),
  };
}

export function invalidInput(name: string, issues: readonly InputIssue[]): Error {
  const first = issues[0];
  const where = first?.path ? ` at \`${first.path}\`` : '';
  return outlastError('ERR_INPUT_INVALID', {
    message: `the input of ${name} is not what its schema asks for${where}: ${first?.message ?? ''}`,
    hint: 'Correct the input; `issues` lists every complaint with its path.',
    fields: { task: name, issues },
  });
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject && !(value instanceof Uint8Array);
}

type Parts = readonly [args: Uint8Array, kwargs: Uint8Array, embed: Uint8Array];

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const OPENING: ReadonlySet<number | undefined> = new Set([0x5b, 0x7b]);
const CLOSING: ReadonlySet<number | undefined> = new Set([0x5d, 0x7d]);

/**
 * The three texts of a body, as the outbox keeps them: joined again with brackets and commas they are the same bytes,
 * spaces included, so that its digest holds. Null: it is no list of three.
 */
export function splitBody(body: Uint8Array): Parts | null {
  const commas: number[] = [];
  let depth = 0;
  for (let at = 0; at < body.length; at++) {
    const byte = body[at];
    if (byte === QUOTE) at = endOfString(body, at);
    else if (OPENING.has(byte)) depth += 1;
    else if (CLOSING.has(byte)) depth -= 1;
    else if (byte === COMMA && depth === 1) commas.push(at);
  }
  const [first, second] = commas;
  const isThree = first !== undefined && second !== undefined && commas.length === 2;
  if (!isThree || body[0] !== 0x5b || body.at(-1) !== 0x5d) return null;
  return [
    body.subarray(1, first),
    body.subarray(first + 1, second),
    body.subarray(second + 1, body.length - 1),
  ];
}

/** The index of the closing quote of the string that begins here. */
function endOfString(body: Uint8Array, opening: number): number {
  let at = opening + 1;
  while (at < body.length && body[at] !== QUOTE) at += body[at] === BACKSLASH ? 2 : 1;
  return at;
}
