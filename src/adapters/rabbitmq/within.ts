import { systemClock } from '../../runtime/clock.ts';

/** The result of `answer`; fails after `ms`, and ignores what comes later. */
export function within<T>(ms: number, answer: Promise<T>, what: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = systemClock.timer(ms, () => reject(new Error(`RabbitMQ ${what} for ${ms} ms`)));
    answer.then(resolve, reject).finally(cancel);
  });
}
