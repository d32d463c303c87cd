#!/usr/bin/env -S node --
// @ts-check
import { existsSync } from 'node:fs';

const main = new URL('../dist/cli/main.js', import.meta.url);

// `npm start` holds the other end of this channel. If it is killed without a word, a process that
// nobody sees any more must not keep the port and the folder: it drains as after SIGTERM.
if (process.env.OUTLAST_LIFELINE !== undefined) {
  delete process.env.OUTLAST_LIFELINE;
  process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'));
  process.channel?.unref();
}

// In a clone nothing is built yet; an installed package has dist and neither src nor scripts.
if (!existsSync(main) && existsSync(new URL('../src', import.meta.url))) {
  const prepare = await import('../scripts/prepare.mjs');
  try {
    prepare.requireNode();
    await prepare.ensureInstalled();
    await prepare.ensureBuilt();
  } catch (error) {
    if (!(error instanceof prepare.PrepareError)) throw error;
    prepare.say(error.message);
    process.exit(1);
  }
}

const cli = await import(main.href);
process.exitCode = await cli.main(process.argv.slice(2));
