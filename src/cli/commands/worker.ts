import { outlastError } from '../../errors/error.ts';
import { withProbes } from '../../wiring/health.ts';
import { shutdownSignal } from '../../wiring/shutdown-signal.ts';
import { Pulses } from '../../wiring/worker-health.ts';
import {
  addSectionFlags,
  readContext,
  readFlags,
  withStores,
  type CommonOptions,
} from '../context.ts';
import type { AddCommand } from '../command.ts';

/** `outlast worker`: a supervisor with its worker processes. */
export const addWorker: AddCommand = (program, output) => {
  const command = program
    .command('worker')
    .description('run tasks: a supervisor with worker processes');
  addSectionFlags(command, 'worker').action(async (options: CommonOptions) => {
    const context = await readContext(options, output, 'worker');
    const { runtime, config, loaded, log } = context;
    if (config.tasks.length === 0) throw noTasks(loaded.file);
    const { preflight } = await import('../../wiring/check-redis.ts');
    await preflight(config, log);
    const signal = shutdownSignal(() => log.info({}, 'draining; a second signal exits at once'));
    const { makeSupervisor } = await import('../../wiring/supervise.ts');
    await withStores(context, { embedded: 'join', createIfMissing: false }, async stores => {
      const logging = {
        level: options.verbose ? ('debug' as const) : ('info' as const),
        json: options.json ?? false,
      };
      const spec = {
        configFile: loaded.file,
        loader: loaded.loader,
        modules: [],
        worker: readFlags('worker', options),
        log: logging,
      };
      log.info(
        { processes: config.worker.processes, queues: Object.keys(config.worker.queues) },
        'worker started',
      );
      const failed = new AbortController();
      const onUnloadable = (error: Error): void => failed.abort(error);
      const { processes, maxBlockMs } = config.worker;
      const pulses = new Pulses(runtime.clock, processes, maxBlockMs);
      const supervisor = makeSupervisor({ stores, config, runtime, spec, onUnloadable, pulses });
      await withProbes(
        () => pulses.look(),
        config.worker,
        runtime,
        () => supervisor.run(AbortSignal.any([signal, failed.signal])),
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
