import { ISOLATE_ENV } from './isolate/isolate-spec.ts';
import { SPEC_ENV } from './worker-spec.ts';

/** Whether this is a worker process, or a process or thread for its handlers. */
export const isStartedByWorker = (): boolean =>
  SPEC_ENV in process.env || ISOLATE_ENV in process.env;
