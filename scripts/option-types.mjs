// @ts-check
/** TypeScript types of the options in src/options, with the sentences that people read in their editors. */

/** @typedef {import('../src/options/option.ts').OptionRow} OptionRow */
/** @typedef {import('../src/options/option.ts').OptionTable} OptionTable */
/** @typedef {(key: string, row: Pick<OptionRow, 'kind'>) => string} ResolvedName */

/**
 * One interface.
 * @typedef {object} Shape
 * @property {string} name with its type parameters
 * @property {string} sentence
 * @property {OptionTable} table
 * @property {boolean} [takesUndefined] members may be given as undefined
 * @property {readonly string[]} [more] further members
 */

const WIDTH = 120;

/**
 * A doc comment, on one line where it fits.
 * @param {string} text
 * @param {string} indent
 */
function comment(text, indent) {
  const short = `${indent}/** ${text} */\n`;
  if (short.length <= WIDTH) return short;
  const lines = [`${indent} *`];
  for (const word of text.replaceAll(' @default ', ' \n@default ').split(' ')) {
    const last = lines.length - 1;
    const isNew = word.startsWith('\n');
    if (isNew || `${lines[last]} ${word}`.length > WIDTH) lines.push(`${indent} * ${word.trim()}`);
    else lines[last] = `${lines[last]} ${word}`;
  }
  return `${indent}/**\n${lines.join('\n')}\n${indent} */\n`;
}

/** @param {string} text */
const quoted = text => `'${text}'`;

/**
 * Where another default holds.
 * @param {OptionRow} row
 */
function otherDefault(row) {
  if (row.kind === 'duration' && row.embedded !== undefined)
    return `; '${row.embedded}' on an embedded database`;
  if (row.kind === 'choice' && row.whenSigning !== undefined)
    return `; '${row.whenSigning}' with signing keys`;
  return '';
}

/**
 * The default as code, and what its row adds; null: there is nothing to say.
 * @param {OptionRow} row
 */
export function defaultText(row) {
  const { default: value, defaultNote = otherDefault(row) } = row;
  if (value === undefined) return defaultNote === '' ? null : defaultNote;
  if (row.kind === 'path' && value === '') return 'none';
  if (Array.isArray(value)) return `[${value.map(quoted).join(', ')}]${defaultNote}`;
  if (typeof value === 'object') return `{}${defaultNote}`;
  return (typeof value === 'string' ? quoted(value) : String(value)) + defaultNote;
}

/**
 * What a user writes.
 * @param {OptionRow} row
 * @param {string} indent
 * @returns {string}
 */
function givenType(row, indent) {
  if (row.kind === 'group') return groupType(row, indent);
  if (row.type !== undefined) return row.type;
  switch (row.kind) {
    case 'integer':
    case 'seconds':
      return 'number';
    case 'duration':
      return 'Duration';
    case 'choice':
      return row.typeName ?? row.choices.map(quoted).join(' | ');
    case 'boolean':
      return 'boolean';
    case 'queues':
      return 'Queues';
    case 'instant':
      return 'Date';
    case 'moment':
      return 'Duration | Date';
    case 'path':
    case 'host':
    case 'name':
    case 'key':
    case 'text':
    case 'url':
      return 'string';
    default:
      throw new Error(`an option of the kind ${row.kind} says no type: ${row.sentence}`);
  }
}

/**
 * @param {Extract<OptionRow, { kind: 'group' }>} row
 * @param {string} indent
 */
function groupType(row, indent) {
  if (row.typeName !== undefined) return row.typeName;
  const own = `{\n${members(row.members, { indent: `${indent}  ` })}${indent}}`;
  const whole = row.extends === undefined ? own : `${row.extends} & ${own}`;
  return row.orFlag ? `boolean | ${whole}` : whole;
}

/**
 * @param {OptionTable} table
 * @param {{ indent: string, takesUndefined?: boolean }} style
 */
function members(table, { indent, takesUndefined = false }) {
  return Object.entries(table)
    .map(([key, row]) => {
      const fallback = defaultText(row);
      const text = fallback === null ? row.sentence : `${row.sentence} @default ${fallback}`;
      const mark = row.isRequired ? '' : '?';
      const undefinedToo = takesUndefined && !row.isRequired ? ' | undefined' : '';
      return `${comment(text, indent)}${indent}readonly ${key}${mark}: ${givenType(row, indent)}${undefinedToo};\n`;
    })
    .join('');
}

/**
 * What users write.
 * @param {Shape} shape
 */
export function givenInterface({ name, sentence, table, takesUndefined = false, more = [] }) {
  const body = members(table, { indent: '  ', takesUndefined });
  const rest = more.map(line => `  readonly ${line};\n`).join('');
  return `${comment(sentence, '')}export interface ${name} {\n${body}${rest}}\n`;
}

/**
 * What stages and contracts get; null: it is made by other means.
 * @param {OptionRow} row
 */
function resolvedType(row) {
  if (row.resolved !== undefined) return row.resolved;
  const isSure = row.default !== undefined;
  switch (row.kind) {
    case 'integer':
    case 'seconds':
      return isSure && !row.zeroIsNone ? 'number' : 'number | null';
    case 'duration':
      return isSure ? 'number' : 'number | null';
    case 'choice':
    case 'boolean':
    case 'host':
    case 'name':
    case 'text':
      return isSure ? givenType(row, '') : `${givenType(row, '')} | null`;
    case 'path':
      return 'string | null';
    case 'queues':
      return 'Readonly<Record<string, number>>';
    case 'schema':
      return 'StandardSchema | null';
    default:
      return null;
  }
}

/**
 * @param {Shape} shape
 * @param {ResolvedName} resolvedName
 */
export function resolvedInterface({ name, sentence, table }, resolvedName) {
  const body = Object.entries(table).flatMap(([key, row]) => {
    const type = resolvedType(row);
    return type === null ? [] : [`  readonly ${resolvedName(key, row)}: ${type};\n`];
  });
  return `${comment(sentence, '')}export interface ${name} {\n${body.join('')}}\n`;
}

/**
 * The types that rows of these tables name.
 * @param {readonly OptionTable[]} tables
 * @param {{ takesUndefined?: boolean }} [style]
 * @returns {string[]}
 */
export function namedTypes(tables, style = {}) {
  return tables.flatMap(table =>
    Object.values(table).flatMap(row => {
      if (row.kind === 'choice' && row.typeName !== undefined) {
        const choices = row.choices.map(quoted).join(' | ');
        return [
          `${comment(row.typeSentence ?? '', '')}export type ${row.typeName} = ${choices};\n`,
        ];
      }
      if (row.kind !== 'group' || row.typeName === undefined) return [];
      const sentence = row.typeSentence ?? row.sentence;
      return [givenInterface({ name: row.typeName, sentence, table: row.members, ...style })];
    }),
  );
}
