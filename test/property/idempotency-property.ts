import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { KeyOwner, KeyRun } from '../../src/idempotency/idempotency-store.ts';
import { HOUR, unique } from '../conformance/envelopes.ts';
import type { IdempotencyFixture } from '../conformance/idempotency.ts';

const TASKS = 3;

interface By {
  readonly task: number;
  readonly epoch: number;
  readonly run: number;
}

type Command =
  | {
      readonly kind: 'acquire';
      readonly task: number;
      readonly epoch: number;
      readonly run: number;
      readonly input: number;
      /** The holder that is replaced; null: none. */
      readonly instead: { readonly task: number; readonly epoch: number } | null;
    }
  | ({ readonly kind: 'complete' | 'free' | 'forget' } & By)
  | { readonly kind: 'wait' };

const task = fc.nat({ max: TASKS - 1 });
const epoch = fc.integer({ min: 1, max: 3 });
const run = fc.nat({ max: 1 });
const commandArbitrary: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('acquire'),
      task,
      epoch,
      run,
      input: fc.nat({ max: 1 }),
      instead: fc.option(fc.record({ task, epoch })),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constantFrom('complete', 'free', 'forget'), task, epoch, run }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('wait') }) },
);

const inOrder = (numbers: readonly number[]): string => numbers.toSorted((a, b) => a - b).join();

const isSame = (a: By, b: By): boolean =>
  a.task === b.task && a.epoch === b.epoch && a.run === b.run;

/** One key as its diagram describes it: at most one owner, and a result ends only when it expires. */
class KeyModel {
  #row: (By & { isDone: boolean; input: number; result: string }) | null = null;
  /** The task that acquired it when it was new. */
  #origin: number | null = null;
  /** The task that freed it: its origin is remembered meanwhile. */
  #freedBy: By | null = null;
  readonly waiters: Set<number> = new Set();

  acquire(command: Extract<Command, { kind: 'acquire' }>): string {
    const { task: by, epoch: at, input, instead } = command;
    const row = this.#row;
    const isHeld = row !== null && !row.isDone && row.task === by;
    const isEarlier = isHeld && (row.epoch < at || isSame(row, command));
    const isNamed =
      row?.isDone === false &&
      row.task !== by &&
      row.task === instead?.task &&
      row.epoch === instead.epoch;
    if (row === null || isEarlier || isNamed) {
      this.#row = { isDone: false, task: by, epoch: at, run: command.run, input, result: '' };
      this.waiters.delete(by);
      this.#freedBy = null;
      this.#origin ??= by;
      return `owned from ${this.#origin}`;
    }
    if (row.task === by) return row.isDone ? `done ${row.result}` : 'stale';
    if (row.input !== input) return `mismatch ${row.isDone ? 'done' : `${row.task}@${row.epoch}`}`;
    if (row.isDone) return `done ${row.result}`;
    this.waiters.add(by);
    return `held ${row.task}@${row.epoch}`;
  }

  complete(by: By, result: string): string {
    const row = this.#row;
    if (row === null || !isSame(row, by)) return 'stale';
    if (!row.isDone) this.#row = { ...row, isDone: true, result };
    return this.#ok();
  }

  free(by: By, evenDone: boolean): string {
    const row = this.#row;
    if (evenDone && this.#freedBy !== null && isSame(this.#freedBy, by)) {
      this.#forget();
      return 'ok ';
    }
    if (row === null || !isSame(row, by) || (row.isDone && !evenDone)) return 'stale';
    const reply = this.#ok();
    const origin = this.#origin;
    this.#forget();
    if (!evenDone) [this.#origin, this.#freedBy] = [origin, by];
    return reply;
  }

  /** Long enough for every result and every origin, and for no holder. */
  wait(): void {
    if (this.#row?.isDone !== false) this.#forget();
  }

  #ok(): string {
    return `ok ${inOrder([...this.waiters])}`;
  }

  #forget(): void {
    this.#row = null;
    this.#origin = null;
    this.#freedBy = null;
    this.waiters.clear();
  }
}

/** Random commands on one key, against any store: every answer must be that of the model. */
export function describeIdempotencyProperty(
  name: string,
  makeFixture: () => Promise<IdempotencyFixture>,
  size: { readonly numRuns: number; readonly maxCommands: number },
): void {
  describe(`idempotency keys against their model: ${name}`, () => {
    let fixture: IdempotencyFixture;
    beforeAll(async () => {
      fixture = await makeFixture();
    });
    afterAll(() => fixture.dispose());

    it('answers every sequence of steps as the diagram says', async () => {
      const commands = fc.array(commandArbitrary, { minLength: 3, maxLength: size.maxCommands });
      const property = fc.asyncProperty(commands, async list => {
        const driver = new KeyDriver(fixture);
        const model = new KeyModel();
        for (const [index, command] of list.entries()) {
          const expected = expectedOf(model, command, String(index));
          expect(await driver.run(command, String(index))).toBe(expected);
        }
      });
      await fc.assert(property, { numRuns: size.numRuns });
    });
  });
}

function expectedOf(model: KeyModel, command: Command, result: string): string {
  switch (command.kind) {
    case 'acquire':
      return model.acquire(command);
    case 'complete':
      return model.complete(command, result);
    case 'free':
    case 'forget':
      return model.free(command, command.kind === 'forget');
    case 'wait':
      model.wait();
      return '';
  }
}

/** Translates the answer of a store into the words of the model. */
class KeyDriver {
  readonly #fixture: IdempotencyFixture;
  readonly #key: string = unique('key');
  readonly #ids: readonly string[] = Array.from({ length: TASKS }, () => unique('task'));

  constructor(fixture: IdempotencyFixture) {
    this.#fixture = fixture;
  }

  async run(command: Command, result: string): Promise<string> {
    const { store } = this.#fixture;
    switch (command.kind) {
      case 'acquire':
        return await this.#acquire(command);
      case 'complete': {
        const ending = { result: Buffer.from(result), ttlMs: HOUR };
        return this.#ended(await store.complete({ ...this.#owner(command), ...ending }));
      }
      case 'free':
      case 'forget': {
        const evenDone = command.kind === 'forget';
        return this.#ended(await store.free({ ...this.#owner(command), evenDone }));
      }
      case 'wait':
        await this.#fixture.advance(2 * HOUR);
        return '';
    }
  }

  async #acquire(command: Extract<Command, { kind: 'acquire' }>): Promise<string> {
    const { instead } = command;
    const reply = await this.#fixture.store.acquire({
      ...this.#owner(command),
      digest: `input-${command.input}`,
      ttlMs: HOUR,
      ...(instead === null ? {} : { insteadOf: this.#owner({ ...instead, run: 0 }) }),
    });
    switch (reply.status) {
      case 'owned':
        return `owned from ${this.#ids.indexOf(reply.origin)}`;
      case 'done':
        return `done ${String(Buffer.from(reply.result ?? []))}`;
      case 'held':
        return `held ${this.#named(reply.holder)}`;
      case 'mismatch':
        return `mismatch ${reply.holder === null ? 'done' : this.#named(reply.holder)}`;
      default:
        return reply.status;
    }
  }

  #owner(by: By): KeyRun & { key: string } {
    const taskId = this.#ids[by.task] ?? '';
    return { key: this.#key, taskId, epoch: by.epoch, run: `run-${by.run}` };
  }

  #named({ taskId, epoch: at }: KeyOwner): string {
    return `${this.#ids.indexOf(taskId)}@${at}`;
  }

  #ended({ status, waiters }: { status: string; waiters: readonly string[] }): string {
    if (status !== 'ok') return status;
    return `ok ${inOrder(waiters.map(id => this.#ids.indexOf(id)))}`;
  }
}
