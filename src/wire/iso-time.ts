/** As Python writes an aware datetime: six fraction digits and an offset. */
export function formatInstant(ms: number): string {
  return `${new Date(Math.round(ms)).toISOString().slice(0, -1)}000+00:00`;
}

const PATTERN =
  /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(Z|[+-]\d\d:?\d\d)?)?$/;
const MINUTE_MS = 60_000;

/** Milliseconds with their fraction, or null if it is not a time. Without an offset it is UTC, as in Celery. */
export function parseInstant(text: string): number | null {
  const match = PATTERN.exec(text);
  if (!match) return null;
  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = '', zone] = match;
  const parts = [hour, minute, second].map(Number) as [number, number, number];
  const date = new Date(0);
  // Not Date.UTC: that maps the years 0 to 99 to the last century.
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day));
  const isReal = date.getUTCMonth() === Number(month) - 1 && date.getUTCDate() === Number(day);
  if (!isReal || parts[0] > 23 || parts[1] > 59 || parts[2] > 60) return null;
  date.setUTCHours(...parts);
  const fractionMs = fraction === '' ? 0 : Number(`0.${fraction}`) * 1_000;
  return date.getTime() + fractionMs - offsetMs(zone);
}

function offsetMs(zone: string | undefined): number {
  if (zone === undefined || zone === 'Z') return 0;
  const minutes = Number(zone.slice(1, 3)) * 60 + Number(zone.slice(-2));
  return (zone.startsWith('-') ? -minutes : minutes) * MINUTE_MS;
}
