/** Slices of up to `count` items, in their order. */
export function slicesOf<T>(items: readonly T[], count: number): readonly (readonly T[])[] {
  if (items.length <= count) return items.length === 0 ? [] : [items];
  const length = Math.ceil(items.length / count);
  return Array.from({ length }, (_, n) => items.slice(n * count, (n + 1) * count));
}

export interface SliceLimits<T> {
  readonly count: number;
  readonly bytes: number;
  readonly bytesOf: (item: T) => number;
}

/** Slices of up to this many items and bytes, in their order. An item with more bytes is alone. */
export function slicesWithin<T>(
  items: readonly T[],
  { count, bytes, bytesOf }: SliceLimits<T>,
): readonly (readonly T[])[] {
  const slices: T[][] = [];
  let [slice, sum]: [T[], number] = [[], 0];
  for (const item of items) {
    const size = bytesOf(item);
    if (slice.length > 0 && (slice.length === count || sum + size > bytes)) {
      slices.push(slice);
      [slice, sum] = [[], 0];
    }
    slice.push(item);
    sum += size;
  }
  if (slice.length > 0) slices.push(slice);
  return slices;
}
