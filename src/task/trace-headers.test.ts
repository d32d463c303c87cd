import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  beforeIn,
  isKeptTrace,
  readBaggage,
  readTraceparent,
  TRACE_HEADERS,
  withoutUnfitTraces,
  writeBaggage,
  writeTraceparent,
} from './trace-headers.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';
const GOOD = `00-${TRACE}-${SPAN}-01`;

it('reads a traceparent of this version, and what it knows of a later one', () => {
  const point = { traceId: TRACE, spanId: SPAN, flags: 1 };
  expect(readTraceparent(GOOD)).toEqual(point);
  expect(readTraceparent(`cc-${TRACE}-${SPAN}-01-what-comes`)).toEqual(point);
  expect(writeTraceparent(point)).toBe(GOOD);
});

it.each([
  ['none', undefined],
  ['empty', ''],
  ['too short', GOOD.slice(0, -1)],
  ['longer than its version allows', `${GOOD}-1`],
  ['a later version without a dash', `01${GOOD.slice(2)}1`],
  ['in capitals', GOOD.toUpperCase()],
  ['the version that is none', `ff${GOOD.slice(2)}`],
  ['without a trace', GOOD.replace(TRACE, '0'.repeat(32))],
  ['without a span', GOOD.replace(SPAN, '0'.repeat(16))],
  ['with control bytes', `${GOOD}\u0000`],
  ['with a line end', `${GOOD}\n`],
  ['endless', `cc-${TRACE}-${SPAN}-01-${'x'.repeat(100_000)}`],
])('takes a traceparent for absent that is %s', (_, text) => {
  expect(readTraceparent(text)).toBeNull();
});

it('drops what may not travel, and nothing else', () => {
  const fit = { traceparent: 'not one, but harmless', region: '\u0001', baggage: 'a=b' };
  expect(withoutUnfitTraces(fit)).toBe(fit);
  const unfit = { tracestate: 'x'.repeat(100_000), baggage: 'a=\u0001', 'sentry-trace': '' };
  expect(withoutUnfitTraces({ ...unfit, region: 'eu' })).toEqual({ region: 'eu' });
});

it('never throws, whatever the headers are', () => {
  const text = fc.oneof(
    fc.uint8Array({ maxLength: 80 }).map(bytes => Buffer.from(bytes).toString('latin1')),
    fc.string({ maxLength: 300 }),
    fc.constant(GOOD),
  );
  const headers = fc.dictionary(fc.constantFrom(...TRACE_HEADERS, '__proto__', 'x'), text);
  fc.assert(
    fc.property(headers, headers, (one, other) => {
      beforeIn(one, other);
      for (const name of TRACE_HEADERS) {
        const kept = withoutUnfitTraces(one)[name];
        expect(kept === undefined || isKeptTrace(name, kept)).toBe(true);
      }
      for (const [key, value] of readBaggage(one['baggage'])) writeBaggage([[key, value]]);
    }),
  );
});

it('writes baggage that it reads again, as much as there is room for', () => {
  const entries = fc.array(
    fc.tuple(fc.stringMatching(/^[a-z]{1,8}$/), fc.string({ unit: 'grapheme' })),
  );
  fc.assert(
    fc.property(entries, given => {
      const some = given.slice(0, 20);
      expect(readBaggage(writeBaggage(some))).toEqual(some);
    }),
  );
  const many = Array.from({ length: 500 }, (_, at): [string, string] => [
    `k${at}`,
    'v'.repeat(200),
  ]);
  const text = writeBaggage(many) ?? '';
  expect(text.length).toBeLessThanOrEqual(8_192);
  expect(readBaggage(text)).toEqual(many.slice(0, readBaggage(text).length));
  expect(readBaggage('a=%zz, b=1;p=2, =x, c')).toEqual([['b', '1']]);
});

it('a step that was written earlier in the same trace gives way to the task before it', () => {
  const earlier = { traceparent: GOOD, baggage: 'a=b', region: 'eu' };
  const later = { traceparent: GOOD.replace(SPAN, 'a'.repeat(16)) };
  expect(beforeIn(later, earlier)).toEqual({ region: 'eu' });
  const other = { traceparent: GOOD.replace(TRACE, 'b'.repeat(32)) };
  expect(beforeIn(later, { ...earlier, ...other })).toEqual({ ...earlier, ...other });
  expect(beforeIn({}, earlier)).toBe(earlier);
});
