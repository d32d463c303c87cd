import { RELAY_TABLE } from '../options/relay-table.ts';
import type { NameOf } from './options.ts';
import type { RelayOptions, ResolvedRelayOptions } from './options.generated.ts';
import { resolveSection, type Resolution, type Section } from './resolve-section.ts';

export type { RelayOptions, ResolvedRelayOptions };

export const RELAY_SECTION: Section<ResolvedRelayOptions> = {
  name: 'relay',
  table: RELAY_TABLE,
  conflicts: [
    {
      options: ['staleTimeoutSeconds', 'sendTimeout'],
      sentence:
        '`relay.staleTimeoutSeconds` is longer than `relay.sendTimeout`: a claim must not end during a publish.',
      // A claim that ends during a publish lets a second relay publish the same row beside the first.
      isBroken: ({ staleTimeoutMs, sendTimeoutMs }) => staleTimeoutMs <= sendTimeoutMs,
      problem: ({ staleTimeoutMs, sendTimeoutMs }) =>
        `a claim of ${staleTimeoutMs} ms would end during a publish of up to ${sendTimeoutMs} ms`,
      hint: (_, nameOf) =>
        `Raise \`${nameOf('staleTimeoutSeconds')}\` above \`${nameOf('sendTimeout')}\`.`,
    },
  ],
  oddities: [
    {
      sentence: '`relay.maxBackoff` under `relay.backoffTime`',
      isOdd: ({ maxBackoffMs, backoffTimeMs }) => maxBackoffMs < backoffTimeMs,
      warning: nameOf =>
        `\`${nameOf('maxBackoff')}\` is under \`${nameOf('backoffTime')}\`: every wait is the shorter one`,
    },
    {
      sentence: '`relay.publishConcurrency` over `relay.batchSize`',
      isOdd: ({ publishConcurrency, batchSize }) => publishConcurrency > batchSize,
      warning: nameOf =>
        `\`${nameOf('publishConcurrency')}\` is over \`${nameOf('batchSize')}\`: so many rows are seldom claimed`,
    },
    {
      sentence: '`relay.idleTime` over 30 s',
      isOdd: ({ idleTimeMs }) => idleTimeMs > 30_000,
      warning: nameOf =>
        `\`${nameOf('idleTime')}\` is over 30 s: where no notification comes, a due row waits that long`,
    },
    {
      sentence: '`relay.brokerOutageCooldown` over 5 min',
      isOdd: ({ brokerOutageCooldownMs }) => brokerOutageCooldownMs > 300_000,
      warning: nameOf =>
        `\`${nameOf('brokerOutageCooldown')}\` is over 5 min: so long may it take to see that the broker is back`,
    },
  ],
};

export function resolveRelayOptions(
  given: RelayOptions = {},
  nameOf?: NameOf,
): Resolution<ResolvedRelayOptions> {
  return resolveSection(RELAY_SECTION, given, nameOf);
}
