import { describe, expect, it } from 'vitest';
import { MigrationWatch, type StatementLook } from './migration-steps.ts';

/** A look that never gets a connection: the migration has the only one. */
function hangingLook(): {
  readonly look: () => Promise<StatementLook>;
  readonly begun: Promise<void>;
} {
  let begin = (): void => undefined;
  const begun = new Promise<void>(resolve => {
    begin = resolve;
  });
  const look = (): Promise<StatementLook> => {
    begin();
    return new Promise(() => undefined);
  };
  return { look, begun };
}

describe('a migration that is watched through a pool without a free connection', () => {
  it('goes on when its statement is done', async () => {
    const { look, begun } = hangingLook();
    const done = new MigrationWatch({}).during('one', look, () => begun.then(() => 'done'));
    await expect(done).resolves.toBe('done');
  });

  it('fails when its statement fails', async () => {
    const { look, begun } = hangingLook();
    const run = async (): Promise<never> => {
      await begun;
      throw new Error('locked');
    };
    await expect(new MigrationWatch({}).during('one', look, run)).rejects.toThrow('locked');
  });
});
