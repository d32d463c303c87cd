import { spawn, type ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { migratedDatabase } from '../support/database.ts';
import { startRabbit } from '../support/rabbit-server.ts';
import { startRedis } from '../support/redis-server.ts';
import { celeryPython } from '../support/servers.ts';

/**
 * Python and TypeScript workers on one queue, with chains and chords that Python sends; workers of both kinds are killed and
 * the broker is restarted. Then the same with workers of Python alone. Nothing may hang that does not hang there too.
 */

const { values } = parseArgs({
  options: {
    celery: { type: 'boolean' },
    chains: { type: 'string', default: '2000' },
    chords: { type: 'string', default: '200' },
    kills: { type: 'string', default: '10' },
    silence: { type: 'string', default: '120' },
  },
});

const FOLDER = new URL('../../../test/torture/celery/', import.meta.url).pathname;
const REPO = new URL('../../../', import.meta.url).pathname;
const PER_KIND = 2;
const EVERY_MS = 3_000;

type Kind = 'python' | 'typescript' | 'resurrector';

interface Member {
  readonly kind: Kind;
  /** Of a node: one that is started again has the name it had, and no two have the same. */
  readonly name: string;
  child: ChildProcess;
  isKilled: boolean;
}

/** Workers that are started again when they end, as an orchestrator would. */
class MixedFleet {
  readonly members: Member[] = [];
  /** Processes that ended without being killed. */
  readonly died: Record<Kind, number> = { python: 0, typescript: 0, resurrector: 0 };
  readonly #env: NodeJS.ProcessEnv;
  #isOver = false;

  constructor(env: NodeJS.ProcessEnv) {
    this.#env = env;
  }

  start(kind: Kind): void {
    const name = `w${this.members.length}`;
    const member: Member = { kind, name, child: this.#spawn(kind, name), isKilled: false };
    this.members.push(member);
    this.#watch(member);
  }

  #watch(member: Member): void {
    member.child.once('exit', () => {
      if (this.#isOver) return;
      if (!member.isKilled) this.died[member.kind] += 1;
      member.isKilled = false;
      member.child = this.#spawn(member.kind, member.name);
      this.#watch(member);
    });
  }

  #spawn(kind: Kind, name: string): ChildProcess {
    const isLogged = process.env['TORTURE_LOG'] !== undefined;
    const options = {
      cwd: FOLDER,
      env: this.#env,
      stdio: ['ignore', 'ignore', isLogged ? 'inherit' : 'ignore'] as [
        'ignore',
        'ignore',
        'ignore',
      ],
      // A killed worker takes the processes of its pool with it.
      detached: true,
    };
    if (kind === 'python') {
      const worker = ['-m', 'celery', '-A', 'fleet', 'worker', '-n', `${name}@%h`];
      return spawn(celeryPython(), [...worker, '-c', '2', '--loglevel', 'warning'], options);
    }
    const verb = kind === 'typescript' ? 'worker' : 'resurrector';
    const flags = [verb, '--config', `${FOLDER}outlast.config.mjs`];
    return spawn(process.execPath, [`${REPO}bin/outlast.js`, ...flags], options);
  }

  kill(member: Member): void {
    member.isKilled = true;
    killGroup(member.child);
  }

  stop(): void {
    this.#isOver = true;
    for (const { child } of this.members) killGroup(child);
  }
}

function killGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended by itself.
  }
}

async function attempt(kinds: readonly Kind[]): Promise<string> {
  const rabbit = await startRabbit();
  const redis = await startRedis();
  const database = await migratedDatabase('mixed');
  const env = {
    ...process.env,
    OUTLAST_DATABASE_URL: database.url,
    FLEET_BROKER: rabbit.url,
    FLEET_BACKEND: redis.url,
    TORTURE_QUEUE: 'fleet',
    C_FORCE_ROOT: '1',
    PYTHONDONTWRITEBYTECODE: '1',
  };
  const fleet = new MixedFleet(env);
  try {
    for (const kind of kinds) fleet.start(kind);
    const args = ['drive.py', values.chains, values.chords, values.silence];
    const driver = spawn(celeryPython(), args, {
      cwd: FOLDER,
      env,
      stdio: ['ignore', 'pipe', process.env['TORTURE_LOG'] === undefined ? 'ignore' : 'inherit'],
    });
    let [kills, restarts, last] = [0, 0, 'the driver ended'];
    const victims = fleet.members.filter(({ kind }) => kind !== 'resurrector');
    let isSent = false;
    const timer = setInterval(() => {
      const victim = victims[kills % victims.length];
      if (kills < Number(values.kills) && victim !== undefined) {
        kills += 1;
        fleet.kill(victim);
      }
      // Celery's producer does not outlive a restart of its broker: everything is sent before.
      if (!isSent || restarts > 0) return;
      restarts += 1;
      void rabbit.kill().then(() => rabbit.start());
    }, EVERY_MS);
    for await (const line of createInterface(driver.stdout)) {
      isSent = true;
      last = line;
    }
    clearInterval(timer);
    return `${last} · ${kills} kills, ${restarts} restarts of the broker, died by themselves: ${JSON.stringify(fleet.died)}`;
  } finally {
    fleet.stop();
    await Promise.all([rabbit.dispose(), redis.dispose(), database.dispose()]);
  }
}

const of = (kind: Kind): readonly Kind[] => Array.from({ length: PER_KIND }, () => kind);
const mixed = await attempt([...of('python'), ...of('typescript'), 'resurrector']);
process.stdout.write(`Python and TypeScript: ${mixed}\n`);
const alone = await attempt([...of('python'), ...of('python')]);
process.stdout.write(`Python alone:          ${alone}\n`);
