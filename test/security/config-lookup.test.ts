import {
  chmodSync,
  chownSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { findConfig } from '../../src/config/find-config.ts';

const made: string[] = [];
afterEach(() => {
  vi.restoreAllMocks();
  for (const folder of made.splice(0)) rmSync(folder, { recursive: true, force: true });
});

function setup(...files: string[]): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'outlast-lookup-')));
  made.push(folder);
  for (const name of files) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), '');
  }
  return folder;
}

const CONFIG = 'outlast.config.mjs';
/** Only root can change the owner of a file. */
const isRoot = process.geteuid?.() === 0;
const [MALLORY, NODE] = [12_345, 1_000];
const as = (uid: number): void => void vi.spyOn(process, 'geteuid').mockReturnValue(uid);
const give = (uid: number, ...paths: string[]): void =>
  paths.forEach(path => chownSync(path, uid, uid));

describe('the search for a config file', () => {
  it.each([
    ['a package', 'home/app/package.json'],
    ['a repository', 'home/app/.git'],
  ])('ends at %s: a file planted above it is ignored', (_what, marker) => {
    const folder = setup(CONFIG, `home/${CONFIG}`, marker, 'home/app/src/x');
    expect(findConfig(join(folder, 'home/app/src'))).toBeNull();
    expect(findConfig(join(folder, 'home/app'))).toBeNull();
  });

  it('does not leave the working directory where there is neither', () => {
    const folder = setup(CONFIG, 'a/b/x');
    expect(findConfig(join(folder, 'a/b'))).toBeNull();
    expect(findConfig(folder)).toBe(join(folder, CONFIG));
  });

  it.each(['.git', 'pnpm-workspace.yaml'])(
    'continues above a package inside a workspace: %s',
    marker => {
      const folder = setup(CONFIG, marker, 'packages/api/package.json', 'packages/api/src/x');
      expect(findConfig(join(folder, 'packages/api/src'))).toBe(join(folder, CONFIG));
    },
  );

  it('continues above a package of npm workspaces', () => {
    const folder = setup(CONFIG, 'packages/api/package.json');
    writeFileSync(join(folder, 'package.json'), '{"workspaces": ["packages/*"]}');
    expect(findConfig(join(folder, 'packages/api'))).toBe(join(folder, CONFIG));
  });

  it('does not enter a folder that every user may write to', () => {
    const folder = setup(CONFIG, '.git', 'app/x');
    chmodSync(folder, 0o1777);
    expect(findConfig(join(folder, 'app'))).toBeNull();
  });
});

describe('a config file that was found', () => {
  it('is refused when every user may write to it, and loaded when it is named', () => {
    const folder = setup(CONFIG);
    chmodSync(join(folder, CONFIG), 0o666);
    expect(() => findConfig(folder)).toThrow(/may be written by every user/);
    expect(findConfig(folder, CONFIG)).toBe(join(folder, CONFIG));
  });

  it('is refused when every user may replace it', () => {
    const folder = setup(CONFIG);
    chmodSync(folder, 0o777);
    expect(() => findConfig(folder)).toThrow(/folder that every user may write to/);
    chmodSync(folder, 0o1777);
    expect(findConfig(folder)).toBe(join(folder, CONFIG));
  });

  it.runIf(isRoot)('is refused when it belongs to another user, with a hint', () => {
    const folder = setup(CONFIG, 'package.json', 'src/x');
    give(MALLORY, join(folder, CONFIG));
    for (const cwd of [folder, join(folder, 'src')]) {
      expect(() => findConfig(cwd)).toThrow(/belongs to another user \(uid 12345\)/);
      expect(() => findConfig(cwd)).toThrow(expect.objectContaining({ code: 'ERR_CONFIG_LOAD' }));
    }
  });

  it.runIf(isRoot)('is refused as the outlast key of a package.json, too', () => {
    const folder = setup();
    writeFileSync(join(folder, 'package.json'), '{"outlast": {"tasks": ["./x.mjs"]}}');
    give(MALLORY, join(folder, 'package.json'));
    expect(() => findConfig(folder)).toThrow(/another user/);
  });

  it.runIf(isRoot)('is refused behind a symbolic link of another user', () => {
    const folder = setup(`real/${CONFIG}`);
    symlinkSync(join(folder, 'real', CONFIG), join(folder, CONFIG));
    lchownSync(join(folder, CONFIG), MALLORY, MALLORY);
    expect(() => findConfig(folder)).toThrow(/another user/);
  });

  it.runIf(isRoot)('may belong to root, in an image that runs as node', () => {
    const folder = setup(CONFIG);
    as(NODE);
    expect(findConfig(folder)).toBe(join(folder, CONFIG));
  });

  it.runIf(isRoot)('may belong to the owner of its folder, in an image that runs as root', () => {
    const folder = setup(CONFIG);
    give(NODE, folder, join(folder, CONFIG));
    expect(findConfig(folder)).toBe(join(folder, CONFIG));
    as(4_711);
    expect(findConfig(folder)).toBe(join(folder, CONFIG));
    give(MALLORY, join(folder, CONFIG));
    expect(() => findConfig(folder)).toThrow(/another user/);
  });
});

describe('on a system without file owners', () => {
  it('no owner is compared', () => {
    const folder = setup(CONFIG);
    chmodSync(join(folder, CONFIG), 0o666);
    const { geteuid } = process;
    // As on Windows.
    Object.assign(process, { geteuid: undefined });
    try {
      expect(findConfig(folder)).toBe(join(folder, CONFIG));
    } finally {
      Object.assign(process, { geteuid });
    }
  });
});
