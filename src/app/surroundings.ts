import type { ResolvedConfig } from '../config/config.ts';
import type { Context } from '../context/context.ts';
import type { ProducerDeps } from '../outbox/producer.ts';
import {
  boundedContext,
  contextHeaders,
  NO_CONTEXT,
  type ContextValues,
} from '../task/context-headers.ts';
import { currentContext } from '../telemetry/ambient.ts';
import type { Logger } from '../telemetry/logger.ts';
import { currentTask, type TaskContext } from '../worker/context.ts';

type Surroundings = ReturnType<NonNullable<ProducerDeps<unknown>['surroundings']>>;

const NOTHING: Surroundings = Object.freeze({});

/**
 * What a task takes along from where it is sent: the context that the configuration asks for and, inside a handler, context and
 * headers of the running task.
 */
export function makeSurroundings({
  config,
  log,
}: Pick<Context, 'config' | 'log'>): () => Surroundings {
  return () => {
    const running = currentTask() ?? null;
    if (running === null && config.context === null) return NOTHING;
    const before = running === null || !isTrusted(running, config) ? null : running;
    const values = { ...before?.context, ...captured(config, log) };
    const context = contextHeaders(boundedContext(values));
    return {
      ...(before === null ? {} : { headers: before.headers }),
      ...(Object.keys(context).length === 0 ? {} : { context }),
    };
  };
}

/** A signature would vouch for headers that anybody may have written, and that no code of the user has set. */
function isTrusted({ queue }: TaskContext, { keyring }: ResolvedConfig): boolean {
  return !keyring.takesUnsigned(queue);
}

/** No send fails for want of its context. */
function captured({ context }: ResolvedConfig, log: Logger): ContextValues {
  if (context === null) return NO_CONTEXT;
  if (typeof context !== 'function') {
    const bound = currentContext();
    return Object.fromEntries(
      context.flatMap(key => (key in bound ? [[key, bound[key] ?? '']] : [])),
    );
  }
  try {
    return boundedContext(context());
  } catch (error) {
    log.warn({ error }, 'the `context` function failed; the task is sent without its values');
    return NO_CONTEXT;
  }
}
