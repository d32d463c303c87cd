// @ts-check
/** What every entry point of package.json exports, read by the compiler from the sources. */
import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { API, SymbolFlags } from 'typescript/unstable/sync';

/**
 * @typedef {import('typescript/unstable/sync').Symbol} Symbol
 * @typedef {import('typescript/unstable/sync').Project} Project
 *
 * @typedef {object} Member
 * @property {string} name with `?` where it may be left out
 * @property {string} type
 * @property {string} text
 * @property {string} preset the default
 *
 * @typedef {object} Export
 * @property {string} name
 * @property {'function' | 'constant' | 'class' | 'interface' | 'type'} kind
 * @property {string} file where it stands, from the root
 * @property {string} text of its comment
 * @property {readonly string[]} examples
 * @property {readonly string[]} errors codes, as `@throws` names them
 * @property {string} signature
 * @property {readonly Member[]} members of an interface or a class
 *
 * @typedef {object} EntryPoint
 * @property {string} name such as `outlast/pg`
 * @property {readonly Export[]} exports
 */

/**
 * @param {string} root
 * @returns {readonly EntryPoint[]}
 */
export function readEntryPoints(root) {
  const api = new API({ cwd: root });
  try {
    const config = join(root, 'tsconfig.json');
    const project = api.updateSnapshot({ openProjects: [config] }).getProjects()[0];
    if (!project) throw new Error(`${config} is no project`);
    const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    const targets = Object.entries(exports).filter(([, target]) => target.types !== undefined);
    return targets.map(([path, { types }]) => ({
      name: join('outlast', path),
      exports: readModule(project, root, sourceOf(root, types)),
    }));
  } finally {
    api.close();
  }
}

/**
 * @param {string} root
 * @param {string} types the declarations in dist
 */
const sourceOf = (root, types) => join(root, types.replace('dist', 'src').replace('.d.ts', '.ts'));

/**
 * @param {Project} project
 * @param {string} root
 * @param {string} file
 */
function readModule(project, root, file) {
  const { checker } = project;
  const source = project.program.getSourceFile(file);
  const module = source && checker.getSymbolAtLocation(source);
  if (!module) throw new Error(`${file} is not part of the project`);
  const symbols = checker.getExportsOfModule(module).map(exported => {
    const isAlias = (exported.flags & SymbolFlags.Alias) !== 0;
    return isAlias ? checker.getAliasedSymbol(exported) : exported;
  });
  const names = new Set(symbols.map(({ name }) => name));
  return symbols.map(symbol => readExport(project, root, symbol, names));
}

/**
 * @param {Project} project
 * @param {string} root
 * @param {Symbol} symbol
 * @param {ReadonlySet<string>} names of everything that the entry point exports
 * @returns {Export}
 */
function readExport(project, root, symbol, names) {
  const { checker } = project;
  const tags = symbol.getJsDocTags(checker);
  const textOf = (/** @type {string} */ tag) =>
    tags.filter(one => one.name === tag).map(({ text }) => text ?? '');
  const kind = kindOf(symbol);
  const hasMembers = kind === 'interface' || kind === 'class';
  return {
    name: symbol.name,
    kind,
    file: relative(root, symbol.declarations[0]?.path ?? ''),
    text: sentence(symbol.getDocumentationComment(checker)),
    examples: textOf('example'),
    errors: textOf('throws').flatMap(text => text.match(/ERR_[A-Z_]+/g) ?? []),
    signature: signatureOf(project, symbol, kind),
    members: hasMembers ? membersOf(project, root, symbol, names) : [],
  };
}

/**
 * @param {Symbol} symbol
 * @returns {Export['kind']}
 */
function kindOf({ name, flags }) {
  if (flags & SymbolFlags.Function) return 'function';
  if (flags & SymbolFlags.Class) return 'class';
  if (flags & SymbolFlags.Interface) return 'interface';
  if (flags & SymbolFlags.TypeAlias) return 'type';
  if (flags & SymbolFlags.Variable) return 'constant';
  throw new Error(`${name} is of a kind that the reference does not have`);
}

/**
 * The declaration without comments, bodies and members that have a table.
 * @param {Project} project
 * @param {Symbol} symbol
 * @param {Export['kind']} kind
 */
function signatureOf(project, symbol, kind) {
  const texts = symbol.declarations.map(handle => {
    const node = /** @type {any} */ (handle.resolve(project));
    const text = withoutComments(node.getText());
    if (kind === 'function' && node.body) {
      const length = node.body.getText().length;
      return text.slice(0, withoutBody(text, length));
    }
    if (kind === 'interface' || kind === 'class') return text.slice(0, text.indexOf('{'));
    if (kind === 'constant') return text.replace(/ = (?=[{[(a-z])[^]*$/, '');
    return text;
  });
  // Of overloads the one with the body is not for callers.
  const shown = kind === 'function' && texts.length > 1 ? texts.slice(0, -1) : texts;
  return shown
    .map(text =>
      text
        .replace(/^export /, '')
        .replace(/^async /, '')
        .trim(),
    )
    .join('\n');
}

/**
 * Where the body begins: the last brace that opens it, found from the end because types have braces too.
 * @param {string} text
 * @param {number} bodyLength with its comments
 */
function withoutBody(text, bodyLength) {
  const guess = Math.max(0, text.length - bodyLength);
  let depth = 0;
  for (let index = text.length - 1; index >= guess; index--) {
    if (text[index] === '}') depth += 1;
    if (text[index] === '{') depth -= 1;
    if (depth === 0 && text[index] === '{') return index;
  }
  return guess;
}

/** @param {string} text */
const withoutComments = text =>
  text
    .replace(/^[ \t]*\/\*\*[^]*?\*\/\n?/gm, '')
    .replace(/\/\*\*[^]*?\*\/ ?/g, '')
    .replace(/^[ \t]*\/\/.*\n/gm, '');

/**
 * @param {Project} project
 * @param {string} root
 * @param {Symbol} symbol
 * @param {ReadonlySet<string>} names
 * @returns {readonly Member[]}
 */
function membersOf(project, root, symbol, names) {
  const { checker } = project;
  const properties = checker.getPropertiesOfType(checker.getDeclaredTypeOfSymbol(symbol));
  // What comes from JavaScript itself (the stack of an error) is not ours to describe, and what another interface of
  // this entry point gives stands there.
  const isOurs = (/** @type {Symbol} */ member) =>
    !member.name.startsWith('__@') &&
    member.declarations.some(({ path }) => path.startsWith(join(root, 'src'))) &&
    (member.getParent()?.id === symbol.id || !names.has(member.getParent()?.name ?? ''));
  const declarations = properties
    .filter(isOurs)
    .flatMap(member =>
      member.declarations.map(handle => ({ member, node: handle.resolve(project) })),
    );
  return declarations.flatMap(({ member, node }) => {
    if (!node) return [];
    const text = withoutComments(node.getText()).replace(/\s+/g, ' ');
    if (/^(?:private|#)/.test(text)) return [];
    const declared =
      /^(?:(?:readonly|override|declare|abstract) )*([\w$]+|'[^']+'|\[[^\]]+\])(\??)(.*?);?$/.exec(
        text,
      );
    if (!declared) return [];
    const [, name = '', optional = '', type = ''] = declared;
    const preset = member.getJsDocTags(checker).find(tag => tag.name === 'default')?.text ?? '';
    return [
      {
        name: `${name.replaceAll("'", '')}${optional}`,
        type: type
          .replace(/^: /, '')
          .replace(/ = .*$/, '')
          .trim(),
        text: sentence(member.getDocumentationComment(checker)),
        preset,
      },
    ];
  });
}

/** @param {string} text */
const sentence = text => text.replace(/\n(?!\n)/g, ' ').trim();
