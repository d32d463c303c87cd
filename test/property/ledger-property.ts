import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { BegunTask, RunRef } from '../../src/ledger/ledger.ts';
import type { Envelope } from '../../src/task/envelope.ts';
import { HOUR, makeEnvelopes, unique } from '../conformance/envelopes.ts';
import { LedgerDriver, type MakeLedgerFixture } from '../conformance/ledger-driver.ts';
import { LedgerModel } from './ledger-model.ts';

const TASKS = 3;
const WORKERS = 3;
/** The model knows no budgets. */
const ENDLESS = { suspects: 9, crashBudgets: { '*': 1_000 } } as const;

/** One step of a random process. Numbers choose among what exists when the step is taken. */
export type Command =
  | {
      readonly kind:
        | 'message'
        | 'cancel'
        | 'revive'
        | 'revive-old'
        | 'renew'
        | 'condemn'
        | 'reap'
        | 'wake';
      readonly at: number;
    }
  | { readonly kind: 'due'; readonly at: number; readonly limit: number }
  | { readonly kind: 'park'; readonly at: number; readonly isDue: boolean }
  | { readonly kind: 'commit' | 'bury'; readonly at: number; readonly times: number }
  | {
      readonly kind: 'release';
      readonly at: number;
      readonly times: number;
      readonly next: 'waiting' | 'later';
    }
  | {
      readonly kind: 'fail';
      readonly at: number;
      readonly times: number;
      readonly next: 'waiting' | 'later' | 'dead';
      /** The run crashed with its isolate. It is due as before, so never later. */
      readonly isCrash: boolean;
    }
  | { readonly kind: 'checkpoint'; readonly at: number; readonly seq: number }
  | { readonly kind: 'raise'; readonly at: number; readonly times: number; readonly by: number };

type SettleCommand = Exclude<
  Extract<Command, { readonly times: number }>,
  { readonly kind: 'raise' }
>;

const at = fc.nat({ max: 30 });
/** A step is sent once, or again after its reply was lost. */
const times = fc.integer({ min: 1, max: 2 });

const commandArbitrary: fc.Arbitrary<Command> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('message'), at }) },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant('due'), at, limit: fc.integer({ min: 1, max: 3 }) }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('park'), at, isDue: fc.boolean() }) },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constantFrom('commit', 'bury'), at, times }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('release'),
      at,
      times,
      next: fc.constantFrom('waiting', 'later'),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('fail'),
      at,
      times,
      next: fc.constantFrom('waiting', 'later', 'dead'),
      isCrash: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('checkpoint'),
      at,
      seq: fc.integer({ min: 1, max: 4 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('raise'),
      at,
      times,
      by: fc.integer({ min: -1, max: 2 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constantFrom('condemn', 'reap', 'renew', 'wake'), at }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constantFrom('cancel', 'revive', 'revive-old'), at }),
  },
);

/** A ledger and its model, driven by the same commands. */
class Pair {
  readonly #driver: LedgerDriver;
  readonly #model = new LedgerModel();
  readonly #queue: string = unique('queue');
  readonly #envelopes: readonly Envelope[] = makeEnvelopes(TASKS, { queue: this.#queue });
  readonly #workers: string[] = [];
  /** Every run that ever was: runs that own nothing any more try to settle, too. */
  readonly #runs: RunRef[] = [];
  readonly #committedBy = new Map<string, Set<string>>();
  readonly #epochs = new Map<string, number>();

  constructor(driver: LedgerDriver) {
    this.#driver = driver;
  }

  async start(): Promise<void> {
    for (let n = 0; n < WORKERS; n++) await this.#openWorker(n);
  }

  async run(command: Command): Promise<void> {
    switch (command.kind) {
      case 'message':
        return await this.#message(command.at);
      case 'due':
        return await this.#due(command.at, command.limit);
      case 'park':
        return await this.#park(command.at, command.isDue);
      case 'commit':
      case 'release':
      case 'bury':
      case 'fail':
        return await this.#settle(command);
      case 'checkpoint':
        return await this.#checkpoint(command.at, command.seq);
      case 'raise':
        return await this.#raiseEpoch(command);
      case 'condemn':
        return await this.#condemn(command.at);
      case 'reap':
        return await this.#reap();
      case 'wake':
        return await this.#wake(command.at);
      case 'renew':
        return await this.#renew(command.at);
      case 'cancel':
        return await this.#cancel(command.at);
      case 'revive':
      case 'revive-old':
        return await this.#revive(command.at, command.kind === 'revive-old');
    }
  }

  /** The read model shows the tasks as the model has them. */
  async compare(): Promise<void> {
    for (const { id } of this.#envelopes) {
      const task = this.#model.tasks.get(id);
      const details = await this.#driver.fixture.readModel.inspect(id);
      if (task === undefined) {
        expect(details).toBeNull();
        continue;
      }
      const state = task.state === 'later' ? 'waiting' : task.state;
      const { epoch, failures, crashes } = task;
      expect(details).toMatchObject({ state, epoch, failures, crashes });
      expect(this.#committedBy.get(id)?.size ?? 0).toBe(state === 'done' ? 1 : 0);
    }
  }

  async #openWorker(n: number): Promise<void> {
    const { worker } = await this.#driver.open();
    this.#workers[n] = worker;
    this.#model.open(worker);
  }

  #envelope(n: number): Envelope {
    return this.#envelopes[n % TASKS] as Envelope;
  }

  #worker(n: number): string {
    return this.#workers[n % WORKERS] as string;
  }

  async #message(n: number): Promise<void> {
    const [envelope, worker, run] = [this.#envelope(n), this.#worker(n >> 2), unique('run')];
    const expected = this.#model.message(envelope.id, worker, run);
    const reply = await this.#driver.begin(worker, { run, messages: [envelope], ...ENDLESS });
    expect(reply.answers).toEqual([expected]);
    expect(reply.begun).toHaveLength(expected === 'begun' ? 1 : 0);
    this.#remember(reply.begun);
    // The reply is lost: the same call again gets the same answer.
    const again = await this.#driver.begin(worker, { run, messages: [envelope], ...ENDLESS });
    expect(again.answers).toEqual([expected]);
    expect(again.begun.map(({ epoch }) => epoch)).toEqual(reply.begun.map(({ epoch }) => epoch));
  }

  async #due(n: number, limit: number): Promise<void> {
    const [worker, run] = [this.#worker(n), unique('run')];
    const ready = this.#model.ready().map(({ id }) => id);
    const { begun } = await this.#driver.begin(worker, {
      run,
      queues: [this.#queue],
      limit,
      ...ENDLESS,
    });
    expect(begun).toHaveLength(Math.min(limit, ready.length));
    for (const { id } of begun) {
      expect(ready).toContain(id);
      this.#model.begin(id, worker, run);
    }
    this.#remember(begun);
  }

  #remember(begun: readonly BegunTask[]): void {
    for (const run of begun) {
      const { id, epoch, checkpoint } = run;
      const task = this.#model.tasks.get(id);
      expect(epoch).toBe(task?.epoch);
      expect(epoch).toBeGreaterThan(this.#epochs.get(id) ?? 0);
      expect(checkpoint?.[0]).toBe(task?.checkpoint?.seq);
      this.#epochs.set(id, epoch);
      this.#runs.push(run);
    }
  }

  async #park(n: number, isDue: boolean): Promise<void> {
    const envelope = this.#envelope(n);
    this.#model.park(envelope.id, isDue);
    await this.#driver.ledger.park([{ envelope, delayMs: isDue ? 0 : HOUR }]);
  }

  /** One of the runs there ever were, or a run of an unknown task. */
  #ref(n: number): RunRef {
    return (
      this.#runs[n % (this.#runs.length + 1)] ?? {
        id: unique('task'),
        epoch: 1,
        run: unique('run'),
      }
    );
  }

  async #settle(command: SettleCommand): Promise<void> {
    const ref = this.#ref(command.at);
    const next = nextState(command);
    for (let sent = 0; sent < command.times; sent++) {
      const isCrash = command.kind === 'fail' && command.isCrash;
      const step = isCrash ? 'crash' : command.kind;
      const expected = this.#model.settle(ref, step, next);
      expect(await this.#send(command, ref)).toBe(expected);
      if (command.kind === 'commit' && expected === 'ok') {
        this.#committedBy.set(ref.id, (this.#committedBy.get(ref.id) ?? new Set()).add(ref.run));
      }
    }
  }

  async #send(command: SettleCommand, ref: RunRef): Promise<string | undefined> {
    if (command.kind === 'release' && command.next === 'later') {
      return await this.#driver.release(ref, HOUR);
    }
    if (command.kind !== 'fail') return await this.#driver[command.kind](ref);
    const delayMs = { waiting: 0, later: HOUR, dead: null }[command.next];
    return await this.#driver.fail(ref, { delayMs, isCrash: command.isCrash });
  }

  async #checkpoint(n: number, seq: number): Promise<void> {
    const ref = this.#ref(n);
    const expected = this.#model.checkpoint(ref, seq);
    expect(await this.#driver.ledger.checkpoint(ref, seq, Uint8Array.from([seq]))).toBe(expected);
  }

  async #raiseEpoch(command: Extract<Command, { readonly kind: 'raise' }>): Promise<void> {
    const ref = this.#ref(command.at);
    const above = ref.epoch + command.by;
    for (let sent = 0; sent < command.times; sent++) {
      const expected = this.#model.raiseEpoch(ref, above);
      expect(await this.#driver.ledger.raiseEpoch(ref, above)).toEqual(expected);
      if (expected.status === 'ok') {
        this.#epochs.set(ref.id, expected.epoch);
        this.#runs.push({ id: ref.id, epoch: expected.epoch, run: ref.run });
      }
    }
  }

  async #condemn(n: number): Promise<void> {
    const worker = this.#worker(n);
    this.#model.condemn(worker);
    expect((await this.#driver.ledger.condemn({ kind: 'worker', worker })).workers).toEqual([
      worker,
    ]);
    const request = this.#driver.request(worker, { queues: [this.#queue], limit: 3, ...ENDLESS });
    expect(await this.#driver.ledger.begin(request)).toEqual({ status: 'closed' });
    expect(await this.#driver.ledger.renew(worker)).toEqual({ status: 'closed' });
    await this.#openWorker(n % WORKERS);
  }

  async #reap(): Promise<void> {
    const { returned } = await this.#driver.reapAll(1);
    const mine = returned.map(({ id }) => id).filter(id => this.#model.tasks.has(id));
    expect(mine.sort()).toEqual(this.#model.reap().sort());
  }

  async #renew(n: number): Promise<void> {
    const worker = this.#worker(n);
    const reply = await this.#driver.ledger.renew(worker);
    const sorted = (runs: readonly RunRef[]): string[] =>
      runs.map(({ id, epoch, run }) => `${id}@${epoch}/${run}`).sort();
    expect(reply.status === 'open' ? sorted(reply.runs ?? []) : null).toEqual(
      sorted(this.#model.runningUnder(worker)),
    );
  }

  async #wake(n: number): Promise<void> {
    const { id } = this.#envelope(n);
    this.#model.wake(id);
    await this.#driver.ledger.wake([id]);
  }

  async #cancel(n: number): Promise<void> {
    const { id } = this.#envelope(n);
    expect(await this.#driver.ledger.cancel(id)).toBe(this.#model.cancel(id));
  }

  async #revive(n: number, isOld: boolean): Promise<void> {
    const { id } = this.#envelope(n);
    const letter = await this.#driver.fixture.readModel.showDeadLetter(id);
    const version = (letter?.version ?? 1) - (isOld ? 1 : 0);
    const task = this.#model.tasks.get(id);
    const isRight = task?.state === 'dead' && !isOld;
    const expected = task === undefined ? 'absent' : isRight ? 'ok' : 'conflict';
    expect(await this.#driver.ledger.revive(id, version)).toBe(expected);
    if (isRight) this.#model.revive(id);
  }
}

function nextState(command: SettleCommand): 'done' | 'waiting' | 'later' | 'dead' {
  switch (command.kind) {
    case 'commit':
      return 'done';
    case 'release':
      return command.next;
    case 'bury':
      return 'dead';
    case 'fail':
      return command.isCrash && command.next === 'later' ? 'waiting' : command.next;
  }
}

/** Random commands, against any ledger: every answer and every state must be that of the model. */
export function describeLedgerProperty(
  name: string,
  makeFixture: MakeLedgerFixture,
  size: { readonly numRuns: number; readonly maxCommands: number },
): void {
  describe(`ledger against its model: ${name}`, () => {
    let driver: LedgerDriver | undefined;
    beforeAll(async () => {
      driver = new LedgerDriver(await makeFixture());
    });
    afterAll(async () => {
      await driver?.fixture.dispose();
    });

    it('answers every sequence of steps as the state diagram says', async () => {
      const commands = fc.array(commandArbitrary, { minLength: 5, maxLength: size.maxCommands });
      const property = fc.asyncProperty(commands, async list => {
        if (driver === undefined) throw new Error('the fixture has not been made');
        const pair = new Pair(driver);
        await pair.start();
        for (const command of list) await pair.run(command);
        await pair.compare();
      });
      await fc.assert(property, { numRuns: size.numRuns });
    });
  });
}
