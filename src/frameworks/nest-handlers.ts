import type { Outlast } from '../app/outlast.ts';
import { outlastError } from '../errors/error.ts';
import type { Task, TaskShape } from '../task/define-task.ts';
import type { Verdict } from '../task/verdict.ts';
import type { Handler, HandlerOptions } from '../worker/handler.ts';

/** How a method runs its task: what `outlast.handler` takes, without the function. It runs where its provider lives, in no isolate. */
export type HandlesOptions = Omit<HandlerOptions<TaskShape, never, never>, 'run' | 'mode'>;

/** A method that may run a task: it takes the input, and may take the context. */
export type HandlingMethod<S extends TaskShape> = (
  input: S['parsed'],
  ctx: never,
) => S['returned'] | Verdict | Promise<S['returned'] | Verdict>;

interface Handled {
  readonly method: string | symbol;
  readonly task: Task;
  readonly options: HandlesOptions;
}

/** On the prototype of a class, under a key that two copies of the package share. */
const HANDLED: unique symbol = Symbol.for('outlast.handled') as never;

/**
 * The method of a provider that runs a task. The compiler checks it against the contract.
 *
 * @example
 * Handles(charge, { retry: { maxAttempts: 3 } });
 */
export function Handles<S extends TaskShape>(
  task: Task<S>,
  options: HandlesOptions = {},
): <M extends HandlingMethod<S>>(
  target: object,
  method: string | symbol,
  descriptor: TypedPropertyDescriptor<M>,
) => void {
  return (target, method) => {
    const own = Object.hasOwn(target, HANDLED) ? handledBy(target) : [];
    const value = [...own, { method, task, options }];
    Object.defineProperty(target, HANDLED, { value, configurable: true });
  };
}

/** Of the class and of those that it extends; a method that a class overrides runs as the class has it. */
function handledBy(target: object): readonly Handled[] {
  const found = new Map<string | symbol, Handled>();
  for (let at: object | null = target; at !== null; at = Object.getPrototypeOf(at) as object | null)
    if (Object.hasOwn(at, HANDLED))
      for (const one of (at as { readonly [HANDLED]: readonly Handled[] })[HANDLED])
        if (!found.has(one.method)) found.set(one.method, one);
  return [...found.values()];
}

/** What Nest says of a provider. */
export interface ProviderLike {
  readonly instance: unknown;
  readonly metatype: unknown;
  readonly name: unknown;
  readonly isTransient: boolean;
  isDependencyTreeStatic(): boolean;
}

/** The handlers of all providers, each bound to its instance. */
export function findHandlers(
  outlast: Pick<Outlast<never>, 'handler'>,
  providers: readonly ProviderLike[],
): readonly Handler[] {
  const seen = new Set<object>();
  return providers.flatMap(provider => {
    if (!provider.isTransient && provider.isDependencyTreeStatic()) {
      const { instance } = provider;
      if (typeof instance !== 'object' || instance === null || seen.has(instance)) return [];
      seen.add(instance);
      return handledBy(instance).map(one => bind(outlast, instance, one));
    }
    const { prototype } = (provider.metatype ?? {}) as { readonly prototype?: object };
    const [first] = prototype === undefined ? [] : handledBy(prototype);
    if (first !== undefined) throw withoutInstance(provider, first);
    return [];
  });
}

function bind(
  outlast: Pick<Outlast<never>, 'handler'>,
  instance: object,
  { method, task, options }: Handled,
): Handler {
  const methods = instance as Readonly<Record<string | symbol, HandlingMethod<TaskShape>>>;
  return outlast.handler(task, {
    ...options,
    run: async (input, ctx) => await methods[method]?.(input, ctx as never),
  });
}

function withoutInstance({ name }: ProviderLike, { method, task }: Handled): Error {
  return outlastError('ERR_OPTIONS_CONFLICT', {
    message: `${String(name)}.${String(method)} handles ${task.name}, and its provider is made anew for each request`,
    hint: 'A task has no request: make the provider, and what it depends on, a singleton (`Scope.DEFAULT`).',
    fields: { options: ['scope'] },
  });
}
