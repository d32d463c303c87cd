import { outlastError } from '../../errors/error.ts';
import { withProbes } from '../../process/health/health.ts';
import { shutdownSignal } from '../../process/shutdown-signal.ts';
import { Pulses } from '../../process/health/worker-health.ts';
import {
  addSectionFlags,
  logOptions,
  readContext,
  readFlags,
  withContext,
  type CommonOptions,
} from '../context.ts';
import type { OwnRelay } from '../../process/own-relay.ts';
import type { AddCommand } from '../flags.ts';

const REAPS_NOTHING =
  'this is PID 1, and node reaps no orphans: where handlers start processes, put an init in front (tini, docker run --init, shareProcessNamespace)';

/** `outlast worker`: a supervisor with its worker processes. */
export const addWorker: AddCommand = program => {
  const command = program
    .command('worker')
    .description('run tasks: a supervisor with worker processes');
  addSectionFlags(command, 'worker').action(async (options: CommonOptions) => {
    const { loaded, context } = await readContext(options, { section: 'worker', embedded: 'join' });
    const { runtime, config, log } = context;
    if (config.tasks.length === 0) throw noTasks(loaded.file);
    const { preflight } = await import('../../context/check-redis.ts');
    await preflight(context);
    if (process.pid === 1) log.warn({}, REAPS_NOTHING);
    const signal = shutdownSignal(() => log.info({}, 'draining; a second signal exits at once'));
    const { makeSupervisor } = await import('../../process/supervise.ts');
    const { besideOwnRelay, movesItself } = await import('../../process/own-relay.ts');
    const { backlogGauges } = await import('../../metrics/gauges.ts');
    const { ChildMetrics } = await import('../../metrics/children.ts');
    const { withMetrics } = await import('../../process/measure.ts');
    const { besideScheduler } = await import('../../process/scheduler-service.ts');
    const { enterTier } = await import('../../context/tier-memory.ts');
    await withContext(context, async () => {
      await enterTier(context);
      const spec = {
        configFile: loaded.file,
        loader: loaded.loader,
        modules: [],
        worker: readFlags('worker', options),
        log: logOptions(options),
        isMeasured: config.worker.healthPort !== null,
      };
      log.info(
        { processes: config.worker.processes, queues: Object.keys(config.worker.queues) },
        'worker started',
      );
      const failed = new AbortController();
      const onUnloadable = (error: Error): void => failed.abort(error);
      const { processes, maxBlockMs } = config.worker;
      const pulses = new Pulses(runtime.clock, processes, maxBlockMs);
      const metrics = new ChildMetrics();
      const supervisor = await makeSupervisor(context, { spec, onUnloadable, pulses, metrics });
      const ended = AbortSignal.any([signal, failed.signal]);
      const own: OwnRelay = { current: null };
      const measured = {
        process: 'supervisor',
        isServed: spec.isMeasured,
        children: metrics,
        ...(movesItself(config)
          ? { gauges: backlogGauges(() => own.current?.status ?? null) }
          : {}),
      };
      await withMetrics(context, measured, page =>
        withProbes(
          () => pulses.look(),
          { ...config.worker, metrics: page },
          runtime,
          () =>
            besideScheduler(context, () =>
              besideOwnRelay(context, page && own, () => supervisor.run(ended)),
            ),
        ),
      );
      failed.signal.throwIfAborted();
      log.info({}, 'worker stopped');
    });
  });
};

function noTasks(file: string | null): Error {
  return outlastError('ERR_CONFIG_LOAD', {
    message:
      file === null
        ? 'there is no config file, so no task has a handler'
        : 'the config names no task modules',
    hint: "Name them in outlast.config.ts: export default defineConfig({ tasks: ['./src/handlers/*'] });",
    fields: { file: file ?? '' },
  });
}
