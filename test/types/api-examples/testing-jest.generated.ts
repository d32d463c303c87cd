// Written by scripts/write-api.mjs from the comments in src.
import { outlastMatchers } from 'outlast/testing/jest';
import { expect } from '../stages/testing-jest.ts';

export async function example1(): Promise<unknown> {
  expect.extend(outlastMatchers);
  return [];
}
