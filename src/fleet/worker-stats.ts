import { loadavg, release, type } from 'node:os';
import type { FleetPlace } from '../broker/fleet.ts';

const MICROSECONDS = 1e6;

/** The figures that Celery's workers add to their events. */
export function vitals(active: number, processed: number, version: string): object {
  return {
    // Seconds until the next heartbeat.
    freq: HEARTBEAT_SECONDS,
    active,
    processed,
    loadavg: loadavg().map(load => Math.round(load * 100) / 100),
    sw_ident: 'outlast',
    sw_ver: version,
    sw_sys: type(),
  };
}

/** Celery's interval. */
export const HEARTBEAT_SECONDS = 2;

/** The output of `getrusage`, by its C names. */
export function resourceUsage(): object {
  const usage = process.resourceUsage();
  return {
    utime: usage.userCPUTime / MICROSECONDS,
    stime: usage.systemCPUTime / MICROSECONDS,
    maxrss: usage.maxRSS,
    ixrss: usage.sharedMemorySize,
    idrss: usage.unsharedDataSize,
    isrss: usage.unsharedStackSize,
    minflt: usage.minorPageFault,
    majflt: usage.majorPageFault,
    nswap: usage.swappedOut,
    inblock: usage.fsRead,
    oublock: usage.fsWrite,
    msgsnd: usage.ipcSent,
    msgrcv: usage.ipcReceived,
    nsignals: usage.signalsCount,
    nvcsw: usage.voluntaryContextSwitches,
    nivcsw: usage.involuntaryContextSwitches,
  };
}

/** What `celery report` shows, of our software. */
export function reportText(version: string): string {
  const { node, v8 } = process.versions;
  return [
    '',
    `software -> outlast:${version} node:${node} v8:${v8}`,
    `platform -> system:${type()} arch:${process.arch} kernel version:${release()}`,
    '',
  ].join('\n');
}

/** The broker as kombu describes a connection; never the password. */
export function brokerInfo(place: FleetPlace): object {
  return {
    hostname: place.hostname,
    userid: place.userid,
    virtual_host: place.virtualHost,
    port: place.port,
    insist: false,
    ssl: place.isTls,
    transport: place.transport,
    connect_timeout: null,
    transport_options: {},
    login_method: null,
    uri_prefix: null,
    heartbeat: null,
    failover_strategy: 'round-robin',
    alternates: [],
  };
}

/** A queue as kombu describes one that Celery declared by its name. */
export function queueInfo(name: string): object {
  return {
    name,
    exchange: {
      name,
      type: 'direct',
      arguments: null,
      durable: true,
      passive: false,
      auto_delete: false,
      delivery_mode: null,
      no_declare: false,
    },
    routing_key: name,
    queue_arguments: null,
    binding_arguments: null,
    consumer_arguments: null,
    durable: true,
    exclusive: false,
    auto_delete: false,
    no_ack: false,
    alias: null,
    bindings: [],
    no_declare: null,
    expires: null,
    message_ttl: null,
    max_length: null,
    max_length_bytes: null,
    max_priority: null,
  };
}
