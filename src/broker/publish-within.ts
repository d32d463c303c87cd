import type { Envelope } from '../task/envelope.ts';
import type { PublishOutcome } from './broker.ts';

type Publish = (messages: readonly Envelope[]) => Promise<readonly PublishOutcome[]>;

/**
 * Publishes messages that a worker accepts whole. A larger one would be cut there, and be lost; if it is refused here,
 * the sender still has all of it.
 */
export async function publishWithin(
  messages: readonly Envelope[],
  maxBytes: number,
  publish: Publish,
): Promise<readonly PublishOutcome[]> {
  const fits = ({ body }: Envelope): boolean => body.length <= maxBytes;
  if (messages.every(fits)) return await publish(messages);
  const outcomes = (await publish(messages.filter(fits))).values();
  return messages.map(message =>
    fits(message) ? (outcomes.next().value as PublishOutcome) : refused(message, maxBytes),
  );
}

const refused = ({ body }: Envelope, maxBytes: number): PublishOutcome => ({
  status: 'refused',
  error: `its body has ${body.length} bytes, and workers take ${maxBytes} at most (maxMessageBytes)`,
});
