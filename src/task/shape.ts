import type { Jsonable } from './json.ts';
import type { SchemaInput, SchemaOutput, StandardSchema } from './standard-schema.ts';

/**
 * The types of a contract: what `send` takes, what the handler gets, what it returns, what `result()` gives; and what the
 * task can take from the step before.
 */
export interface TaskShape {
  readonly input: unknown;
  readonly parsed: unknown;
  readonly returned: unknown;
  readonly result: unknown;
  readonly following?: unknown;
}

export type AnySchema = StandardSchema<never, unknown> | StandardSchema<unknown, unknown>;

/** JSON itself. Recursive types, such as that of `z.json()`, are matched here: walking them never ends. */
type JsonValue =
  | string
  | number
  | boolean
  | null
  | undefined
  | bigint
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

/** A schema whose input JSON would change is not accepted: the compiler points at it, and says what is wrong with it. */
export type JsonOnly<S> = S extends undefined
  ? S
  : SchemaInput<S> extends JsonValue
    ? S
    : SchemaInput<S> extends Jsonable<SchemaInput<S>>
      ? S
      : Refusal<NotJson<SchemaInput<S>, '', []>>;

/** No schema has such a member: its name is what the compiler prints. */
type Refusal<What extends string> = {
  readonly [
    K in `JSON cannot carry ${What}: take a text or a number, and convert it in the handler`
  ]: never;
};

/** A type may contain itself; what is deeper than this is not named. */
type MaxDepth = [1, 1, 1, 1, 1, 1];

/** What JSON cannot carry, and where. */
type NotJson<T, Path extends string, Depth extends readonly 1[]> = Depth extends MaxDepth
  ? never
  : T extends string | number | boolean | null | undefined | bigint | Uint8Array
    ? never
    : T extends Date
      ? `a Date${At<Path>}`
      : T extends ReadonlyMap<unknown, unknown>
        ? `a Map${At<Path>}`
        : T extends ReadonlySet<unknown>
          ? `a Set${At<Path>}`
          : T extends (...args: never) => unknown
            ? `a function${At<Path>}`
            : T extends symbol | RegExp | ArrayBufferView | Promise<unknown>
              ? `this value${At<Path>}`
              : T extends readonly (infer Item)[]
                ? NotJson<Item, `${Path}[]`, [...Depth, 1]>
                : {
                    [K in keyof T & (string | number)]-?: NotJson<
                      T[K],
                      Path extends '' ? `${K}` : `${Path}.${K}`,
                      [...Depth, 1]
                    >;
                  }[keyof T & (string | number)];

type At<Path extends string> = Path extends '' ? '' : ` at ${Path}`;

type ArgsInput<A, K> = A extends AnySchema
  ? K extends AnySchema
    ? Record<never, never> extends SchemaInput<K>
      ? { readonly args: SchemaInput<A>; readonly kwargs?: SchemaInput<K> }
      : { readonly args: SchemaInput<A>; readonly kwargs: SchemaInput<K> }
    : { readonly args: SchemaInput<A> }
  : K extends AnySchema
    ? { readonly kwargs: SchemaInput<K> }
    : undefined;

type ArgsParsed<A, K> = A extends AnySchema
  ? K extends AnySchema
    ? { readonly args: SchemaOutput<A>; readonly kwargs: SchemaOutput<K> }
    : { readonly args: SchemaOutput<A> }
  : K extends AnySchema
    ? { readonly kwargs: SchemaOutput<K> }
    : undefined;

/** What a task takes from the step before, and what is left to give: the first of `params`, of `args`, or all. */
export interface Following<Takes, Rest> {
  readonly takes: Takes;
  readonly rest: Rest;
}

/** A task that takes nothing from the step before: it must be given all of its input. */
type Nothing = Following<never, never>;

type FollowingInput<Input, P> = P extends readonly [infer First, ...unknown[]]
  ? First extends keyof Input
    ? Following<Input[First], Omit<Input, First>>
    : Nothing
  : Following<Input, undefined>;

type FollowingArgs<Args, K> = Args extends readonly [(infer First)?, ...infer Others]
  ? Following<First, ArgsRest<Others, K>>
  : Args extends readonly (infer Item)[]
    ? Following<Item, ArgsRest<Args, K>>
    : Nothing;

type ArgsRest<Others, K> = ([] extends Others
  ? { readonly args?: Others }
  : { readonly args: Others }) &
  (K extends AnySchema
    ? Record<never, never> extends SchemaInput<K>
      ? { readonly kwargs?: SchemaInput<K> }
      : { readonly kwargs: SchemaInput<K> }
    : Readonly<Record<never, never>>);

/** The shape that follows from the schemas a contract names. */
export interface ShapeOf<I, R, A, K, P = undefined> extends TaskShape {
  readonly input: I extends AnySchema ? SchemaInput<I> : ArgsInput<A, K>;
  readonly parsed: I extends AnySchema ? SchemaOutput<I> : ArgsParsed<A, K>;
  readonly returned: R extends AnySchema ? SchemaInput<R> : void;
  readonly result: R extends AnySchema ? SchemaOutput<R> : void;
  readonly following: I extends AnySchema
    ? FollowingInput<SchemaInput<I>, P>
    : A extends AnySchema
      ? FollowingArgs<SchemaInput<A>, K>
      : K extends AnySchema
        ? Nothing
        : Following<unknown, undefined>;
}
