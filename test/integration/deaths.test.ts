import { expect, it, onTestFinished } from 'vitest';
import { CliProject, json } from '../support/cli-project.ts';
import { migratedDatabase } from '../support/database.ts';

/** Each time its worker is lost, the task ends the next one in another way. */
const FILES = {
  'outlast.config.mjs': `
    import { defineConfig } from 'outlast';
    export default defineConfig({ tasks: ['./handlers.mjs'], worker: { maxBlock: '3s' } });`,
  'handlers.mjs': `
    import { getHeapStatistics } from 'node:v8';
    import { createOutlast, task } from 'outlast';
    const deadly = task('deadly');
    const ends = [
      () => process.exit(7),
      () => process.kill(process.pid, 'SIGKILL'),
      () => { for (;;); },
      async () => {
        // For longer than two beats, so that the thread has seen how full the heap is.
        const kept = [];
        // In turns, because its loop must not look stuck.
        const keep = async () => {
          kept.push(Array.from({ length: 50_000 }, () => ({})));
          await new Promise(resolve => setImmediate(resolve));
        };
        const full = 0.85 * getHeapStatistics().heap_size_limit;
        while (process.memoryUsage.rss() < full) await keep();
        await new Promise(resolve => setTimeout(resolve, 2_500));
        for (;;) await keep();
      },
    ];
    export const handler = createOutlast().handler(deadly, {
      maxResurrections: 3,
      run: async (_, ctx) => {
        await ctx.checkpoint({ deaths: ctx.resurrections });
        await ends[ctx.resurrections]();
      },
    });`,
};

interface Letter {
  readonly error: string;
  readonly checkpoint: unknown;
  readonly history: readonly { step: string; error?: { type: string; message: string } }[];
}

it('how each worker died stands in the letter, with the last checkpoint, and in the log', async () => {
  const database = await migratedDatabase('deaths');
  const env = { OUTLAST_DATABASE_URL: database.url };
  const project = new CliProject(FILES, env);
  onTestFinished(async () => {
    await project.dispose();
    await database.dispose();
  });
  const worker = project.start(['worker', '--processes', '1'], {
    NODE_OPTIONS: '--max-old-space-size=300',
  });
  await worker.says('worker open');
  await project.run('send', 'deadly', '--id', 'd-1');
  await worker.says('task:dead-lettered');
  const { stdout } = await project.run('dead-letters', 'show', 'd-1', '--json');
  const letter = json<Letter>(stdout);
  const crashes = letter.history.filter(({ step }) => step === 'reaped' || step === 'dead');
  expect(crashes.map(({ error }) => [error?.type, error?.message])).toEqual([
    ['exited', 'exit code 7'],
    ['signal', 'signal SIGKILL'],
    ['stuck-loop', expect.stringMatching(/^its event loop stood still for \d+ ms$/)],
    ['out-of-memory', 'signal SIGABRT: its heap was full'],
  ]);
  expect(letter.error).toBe(
    'its worker died 4 times; the last time: signal SIGABRT: its heap was full',
  );
  expect(letter.checkpoint).toEqual({ deaths: 3 });
  const shown = await project.run('tasks', 'inspect', 'd-1');
  expect(shown.stdout).toMatch(/checkpoint +\{"deaths":3\}/);
  expect(shown.stdout).toMatch(/\+\d+ ms reaped run 1 epoch \d+ \S+ exited: exit code 7/);
  const { stderr } = await worker.stop();
  expect(stderr).toMatch(/worker:lost .*how=exited .*exit code 7/);
  expect(stderr).toMatch(/task:resurrected .*resurrections=3 .*how=stuck-loop/);
  expect(stderr).toMatch(/task:dead-lettered .*out-of-memory/);
});
