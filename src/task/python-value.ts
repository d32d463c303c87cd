/** A value that arrives in Python, with kombu 5.3 or later, as one of Python's own types. A handler of ours gets its text. */
export type PythonValue =
  | {
      readonly __type__: 'datetime' | 'date' | 'time' | 'decimal';
      readonly __value__: string;
    }
  | { readonly __type__: 'uuid'; readonly __value__: { readonly hex: string } };

/**
 * Values of Python's types for the arguments and results of tasks. Python with an older kombu gets objects instead: send
 * texts there.
 *
 * @example
 * await outlast.push(resize, { args: ['a.png', 800], kwargs: { taken: python.date('2026-03-01') } });
 */
export const python: {
  readonly datetime: (value: Date | string) => PythonValue;
  /** As `2026-03-01`; of a `Date` the day in UTC. */
  readonly date: (value: Date | string) => PythonValue;
  readonly time: (value: string) => PythonValue;
  readonly decimal: (value: string) => PythonValue;
  readonly uuid: (value: string) => PythonValue;
} = Object.freeze({
  // Python before 3.11 does not read the Z.
  datetime: (value: Date | string) => marked('datetime', isoOf(value).replace(/Z$/, '+00:00')),
  date: (value: Date | string) => marked('date', isoOf(value).slice(0, 10)),
  time: (value: string) => marked('time', value),
  decimal: (value: string) => marked('decimal', value),
  uuid: (value: string): PythonValue => ({
    __type__: 'uuid',
    __value__: { hex: value.replaceAll('-', '') },
  }),
});

const marked = (type: Exclude<PythonValue['__type__'], 'uuid'>, value: string): PythonValue => ({
  __type__: type,
  __value__: value,
});

const isoOf = (value: Date | string): string =>
  typeof value === 'string' ? value : value.toISOString();
