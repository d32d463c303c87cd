import { spawn, type ChildProcess } from 'node:child_process';

export type Verb = 'relay' | 'worker' | 'resurrector';

export interface Member {
  readonly verb: Verb;
  process: ChildProcess;
}

/** Real processes of the command line, each brought back as soon as it is gone, as an orchestrator would. */
export class Fleet {
  readonly #env: NodeJS.ProcessEnv;
  readonly #project: string;
  readonly members: Member[] = [];
  #isStopping = false;
  restarts = 0;

  /** @param servers the variables that say where everything is */
  constructor(servers: Readonly<Record<string, string>>, repo: string) {
    this.#env = { ...process.env, ...servers };
    this.#project = `${repo}/test/torture/project`;
    this.repo = repo;
  }

  readonly repo: string;

  start(verb: Verb): void {
    const member: Member = { verb, process: this.#spawn(verb) };
    this.members.push(member);
    this.#watch(member);
  }

  #spawn(verb: Verb): ChildProcess {
    const flags = verb === 'worker' ? ['--config', `${this.#project}/outlast.config.mjs`] : [];
    return spawn(process.execPath, [`${this.repo}/bin/outlast.js`, verb, ...flags], {
      env: this.#env,
      cwd: this.#project,
      stdio: ['ignore', 'ignore', process.env['TORTURE_LOG'] === undefined ? 'ignore' : 'inherit'],
    });
  }

  #watch(member: Member): void {
    member.process.once('exit', () => {
      if (this.#isStopping) return;
      this.restarts += 1;
      member.process = this.#spawn(member.verb);
      this.#watch(member);
    });
  }

  /** Drains all processes and waits for their end. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    const exits = this.members.map(
      ({ process: child }) =>
        new Promise<void>(resolve => {
          if (child.exitCode !== null || child.signalCode !== null) return resolve();
          child.once('exit', () => resolve());
          child.kill('SIGTERM');
        }),
    );
    await Promise.all(exits);
  }
}
