import { systemClock } from '../../runtime/clock.ts';
import { unavailable } from './rabbitmq-errors.ts';

/** The result of `answer`; fails after `ms`, and ignores what comes later. */
export function within<T>(ms: number, answer: Promise<T>, what: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = systemClock.timer(ms, () => reject(late(ms, what)));
    answer.then(resolve, reject).finally(cancel);
  });
}

const late = (ms: number, what: string): Error =>
  unavailable('channel', `RabbitMQ ${what} for ${ms} ms`, {
    hint: 'Nothing to do: it is asked again.',
    isPermanent: false,
  });
