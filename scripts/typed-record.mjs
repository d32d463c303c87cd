// @ts-check
/**
 * A constant whose type names its keys and not its values: a type with every text in it is as large as the module.
 * @param {string} name
 * @param {string} type of each value
 * @param {readonly (readonly [name: string, value: string])[]} entries
 */
export function typedRecord(name, type, entries) {
  const keys = entries.map(([key]) => `  readonly ${key}: Entry;\n`).join('');
  const values = entries.map(([key, value]) => `  ${key}: ${value},\n`).join('');
  return `type Entry = ${type};\n\nexport const ${name}: {\n${keys}} = {\n${values}};\n`;
}
