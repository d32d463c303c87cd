const ARM = new URL('arm-fault-point.mjs', import.meta.url).href;

/** The environment of a process that is killed or stopped at a fault point, as in `relay.claimed:kill:1:file`; empty: it is not. */
export function faultEnv(fault: string): Record<string, string> {
  if (fault === '') return {};
  return { OUTLAST_FAULT_POINT: fault, NODE_OPTIONS: `--import ${ARM}` };
}
