import type { CeleryRules, ReadRoute } from '../config/celery.ts';

/** Where a task goes. With an exchange the queue is only a name for people. */
export interface Destination {
  readonly queue: string;
  readonly exchange?: string;
  readonly routingKey?: string;
  readonly priority?: number;
}

/** Routes tasks whose sender named no queue, as the router of a Celery application does. */
export class Routes {
  readonly #rules: CeleryRules;
  readonly #onTrouble: (error: unknown, name: string) => void;

  /** `onTrouble` is told of a router that fails; it counts as one without a route for the task. */
  constructor(rules: CeleryRules, onTrouble: (error: unknown, name: string) => void) {
    this.#rules = rules;
    this.#onTrouble = onTrouble;
  }

  /** Queues that are known before any task is: the default, and those of tables. */
  get queues(): readonly string[] {
    return [this.#rules.defaultQueue, ...this.#rules.queues];
  }

  /** `otherwise` is the queue of a task that no router knows; left out: the default one. */
  destinationOf(name: string, otherwise: string = this.#rules.defaultQueue): Destination {
    for (const router of this.#rules.routers) {
      const route = this.#ask(() => router(name), name);
      if (route !== null) return toDestination(route, this.#rules.defaultQueue);
    }
    return { queue: otherwise };
  }

  #ask(router: () => ReadRoute | null, name: string): ReadRoute | null {
    try {
      return router();
    } catch (error) {
      this.#onTrouble(error, name);
      return null;
    }
  }
}

/** A queue is sent to directly unless an exchange is named. What is missing is that of the queue, as with Celery. */
function toDestination(route: ReadRoute, defaultQueue: string): Destination {
  const { queue = defaultQueue, priority } = route;
  const urgency = priority === undefined ? {} : { priority };
  const isDirect =
    route.exchange === undefined && (route.queue !== undefined || route.routingKey === undefined);
  if (isDirect) return { queue, ...urgency };
  const { exchange = defaultQueue, routingKey = queue } = route;
  return { queue, exchange, routingKey, ...urgency };
}
