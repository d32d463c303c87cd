import { expect, it } from 'vitest';
import { DueFloors, type DueTask } from './postgres-begin.ts';

const PRIORITY = 5;

function setup() {
  const floors = new DueFloors(() => 0);
  const at = (dueMs: number): DueTask => ({ queue: 'some', priority: PRIORITY, dueMs });
  /** The floor of a look that finds a task which was due then; `meanwhile` happens before it is answered. */
  const look = async (dueMs: number, meanwhile = (): void => undefined): Promise<unknown> => {
    const given = await floors.look(
      ['some'],
      async all => {
        meanwhile();
        return all[PRIORITY];
      },
      () => [at(dueMs)],
    );
    return given;
  };
  return { floors, at, look };
}

it('starts some time before the task that was found last', async () => {
  const { look } = setup();
  expect(await look(100_000)).toBeNull();
  expect(await look(100_001)).toBe(95_000);
  expect(await look(100_002)).toBe(95_001);
});

it('starts at a task that was woken in its position', async () => {
  const { floors, at, look } = setup();
  await look(100_000);
  floors.lower([at(40_000)]);
  expect(await look(40_000)).toBeLessThan(40_000);
});

it('starts at a task that was woken while a look was under way', async () => {
  const { floors, at, look } = setup();
  await look(100_000);
  await look(200_000, () => floors.lower([at(40_000)]));
  expect(await look(40_000)).toBeLessThan(40_000);
});

it('starts at the beginning when tasks came back while a look was under way', async () => {
  const { floors, look } = setup();
  await look(100_000);
  await look(200_000, () => floors.reset());
  expect(await look(40_000)).toBeNull();
});
