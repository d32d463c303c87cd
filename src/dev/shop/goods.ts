/** What the sample shop sells. */
export interface Good {
  readonly item: string;
  readonly label: string;
  readonly cents: number;
}

export const GOODS: readonly Good[] = Object.freeze([
  { item: 'teapot', label: 'Teapot', cents: 4_200 },
  { item: 'lamp', label: 'Desk lamp', cents: 6_900 },
  { item: 'notebook', label: 'Notebook', cents: 1_250 },
  { item: 'kite', label: 'Kite', cents: 2_800 },
]);

export function priceOf(cents: number): string {
  return `€${(cents / 100).toFixed(2)}`;
}
