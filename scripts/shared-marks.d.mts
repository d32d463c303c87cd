type Constants = Readonly<Record<string, string | number>>;

export interface Shared {
  readonly constants: Constants;
  readonly includes: Readonly<Record<string, string>>;
  readonly codes: ReadonlySet<string>;
}

export function loadShared(root: string): Promise<Shared>;
export function sqlWithMarks(text: string, constants: Constants): string;
export function luaWithMarks(text: string, constants: Constants): string;
export function whyNotShared(
  text: string,
  shared: Pick<Shared, 'constants' | 'codes'>,
): string | null;
