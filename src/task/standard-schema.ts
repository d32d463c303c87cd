/**
 * The Standard Schema interface (version 1), as zod, valibot, arktype and others implement it.
 * Only the shape is stated here, so no schema library is a dependency.
 */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

export type SchemaInput<S> = S extends {
  readonly '~standard': { readonly types?: { readonly input: infer I } | undefined };
}
  ? I
  : never;

export type SchemaOutput<S> = S extends {
  readonly '~standard': { readonly types?: { readonly output: infer O } | undefined };
}
  ? O
  : never;

/** `a.b[0]`, as people write it. */
export function formatPath(path: SchemaIssue['path']): string {
  let text = '';
  for (const part of path ?? []) {
    const key = typeof part === 'object' ? part.key : part;
    if (typeof key === 'number') text += `[${key}]`;
    else text += text === '' ? String(key) : `.${String(key)}`;
  }
  return text;
}

/**
 * A type without a check, for values that come from code you trust.
 *
 * @example
 * task('billing.charge', { result: unchecked<{ chargeId: string }>() });
 */
export function unchecked<T>(): StandardSchema<T, T> {
  return {
    '~standard': {
      version: 1,
      vendor: 'outlast',
      validate: value => ({ value: value as T }),
    },
  };
}
