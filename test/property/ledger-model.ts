import type { RaiseReply, RunRef, StepStatus } from '../../src/ledger/ledger.ts';

type State = 'waiting' | 'later' | 'running' | 'done' | 'dead' | 'cancelled';
export type Settling = 'commit' | 'fail' | 'release' | 'bury';

interface ModelTask {
  readonly id: string;
  state: State;
  epoch: number;
  run: string;
  worker: string;
  failures: number;
  crashes: number;
  deaths: number;
  settled: { readonly run: string; readonly step: Settling } | null;
  checkpoint: { readonly epoch: number; readonly seq: number } | null;
}

/**
 * The ledger as its state diagram describes it, small enough to be read in one go. Waiting tasks are due now or never
 * within a test; messages and waiting tasks of a run all have the same bytes.
 */
export class LedgerModel {
  readonly tasks: Map<string, ModelTask> = new Map();
  readonly #open = new Set<string>();

  open(worker: string): void {
    this.#open.add(worker);
  }

  /** What a message of this task is answered. */
  message(id: string, worker: string, run: string): 'begun' | 'held' | 'done' {
    const task = this.tasks.get(id) ?? this.#put(id, 'waiting');
    if (task.state === 'running' && task.worker === worker && task.run === run) return 'begun';
    if (task.state === 'done') return 'done';
    if (task.state !== 'waiting') return 'held';
    this.begin(id, worker, run);
    return 'begun';
  }

  ready(): ModelTask[] {
    return [...this.tasks.values()].filter(task => task.state === 'waiting');
  }

  begin(id: string, worker: string, run: string): void {
    const task = this.#get(id);
    task.state = 'running';
    task.epoch += 1;
    task.run = run;
    task.worker = worker;
  }

  /** A crash of the run alone is settled by the failure step, and counted separately. */
  settle(ref: RunRef, how: Settling | 'crash', next: State): StepStatus {
    const step = how === 'crash' ? 'fail' : how;
    const task = this.tasks.get(ref.id);
    if (task === undefined) return 'absent';
    if (!this.#owns(task, ref)) {
      // By its run token alone: the epoch may have been raised since.
      const isRepeat = task.settled?.run === ref.run && task.settled.step === step;
      return isRepeat ? 'ok' : 'stale';
    }
    task.state = next;
    task.settled = { run: ref.run, step };
    if (how === 'fail') task.failures += 1;
    if (how === 'crash') task.crashes += 1;
    if (next === 'dead') task.deaths += 1;
    return 'ok';
  }

  raiseEpoch(ref: RunRef, above: number): RaiseReply {
    const task = this.tasks.get(ref.id);
    if (task === undefined) return { status: 'absent' };
    if (!this.#owns(task, ref) && !this.#owns(task, { ...ref, epoch: above + 1 }))
      return { status: 'stale' };
    task.epoch = Math.max(task.epoch, above + 1);
    return { status: 'ok', epoch: task.epoch };
  }

  checkpoint(ref: RunRef, seq: number): StepStatus {
    const task = this.tasks.get(ref.id);
    if (task === undefined) return 'absent';
    if (!this.#owns(task, ref)) return 'stale';
    const { checkpoint } = task;
    if (checkpoint?.epoch === ref.epoch && seq < checkpoint.seq) return 'stale';
    task.checkpoint = { epoch: ref.epoch, seq };
    return 'ok';
  }

  /** Nothing begins under it any more. Its runs may still be settled until they are reaped. */
  condemn(worker: string): void {
    this.#open.delete(worker);
  }

  /** Tasks without an open owner return. */
  reap(): string[] {
    const lost = [...this.tasks.values()].filter(
      task => task.state === 'running' && !this.#open.has(task.worker),
    );
    for (const task of lost) {
      task.state = 'waiting';
      task.crashes += 1;
    }
    return lost.map(task => task.id);
  }

  cancel(id: string): 'ok' | 'terminal' {
    const task = this.tasks.get(id) ?? this.#put(id, 'waiting');
    if (task.state === 'done' || task.state === 'dead') return 'terminal';
    task.state = 'cancelled';
    return 'ok';
  }

  revive(id: string): void {
    Object.assign(this.#get(id), { state: 'waiting', failures: 0, crashes: 0 });
  }

  wake(id: string): void {
    const task = this.tasks.get(id);
    if (task?.state === 'later') task.state = 'waiting';
  }

  park(id: string, isDue: boolean): void {
    if (!this.tasks.has(id)) this.#put(id, isDue ? 'waiting' : 'later');
  }

  runningUnder(worker: string): RunRef[] {
    const running = [...this.tasks.values()].filter(
      task => task.state === 'running' && task.worker === worker,
    );
    return running.map(({ id, epoch, run }) => ({ id, epoch, run }));
  }

  #owns(task: ModelTask, ref: RunRef): boolean {
    return task.state === 'running' && task.epoch === ref.epoch && task.run === ref.run;
  }

  #get(id: string): ModelTask {
    const task = this.tasks.get(id);
    if (task === undefined) throw new Error(`the model does not know ${id}`);
    return task;
  }

  #put(id: string, state: State): ModelTask {
    const task: ModelTask = {
      id,
      state,
      epoch: 0,
      run: '',
      worker: '',
      failures: 0,
      crashes: 0,
      deaths: 0,
      settled: null,
      checkpoint: null,
    };
    this.tasks.set(id, task);
    return task;
  }
}
