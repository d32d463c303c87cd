import { tick } from '@errands/contracts';
import { defineConfig } from 'outlast';

export default defineConfig({
  tasks: ['./src/handlers/*'],
  worker: { queues: ['errands'] },
  schedule: { tick: { call: tick.with(), cron: '* * * * * *' } },
});
