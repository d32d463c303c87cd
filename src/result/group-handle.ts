import { durationMs } from '../task/duration.ts';
import type { HandleDeps, ResultOptions, TaskHandle } from './result-handle.ts';
import type { LifeState } from './result-store.ts';

/** The group has the first of these states that one of its tasks is in: trouble first, the end last. */
const PRECEDENCE: readonly LifeState[] = [
  'dead',
  'cancelled',
  'unknown',
  'running',
  'waiting',
  'pending',
  'done',
];

/** Many tasks as one: its result is the list of theirs. */
export function createGroupHandle(
  { id, isNew }: { readonly id: string; readonly isNew: boolean },
  members: readonly TaskHandle[],
  { clock }: Pick<HandleDeps, 'clock'>,
): TaskHandle<unknown[]> {
  const result = async (options: ResultOptions = {}): Promise<unknown[]> => {
    const endsAt = clock.monotonic() + durationMs(options.timeout ?? '30s', 'timeout');
    const results: unknown[] = [];
    // One after the other: while the first is waited for the others get done, and most need only one read.
    for (const member of members) {
      const leftMs = Math.max(0, Math.ceil(endsAt - clock.monotonic()));
      results.push(await member.result({ ...options, timeout: `${leftMs}ms` }));
    }
    return results;
  };
  const state = async (): Promise<LifeState> => {
    const states = new Set<LifeState>();
    for (const member of members) states.add(await member.state());
    return PRECEDENCE.find(name => states.has(name)) ?? 'done';
  };
  const cancel = async (): Promise<void> => {
    for (const member of members) await member.cancel();
  };
  return { id, name: 'group', isNew, result, state, cancel };
}
