// @ts-check
/** Measures the figures that were asked for, one after the other. Started by `scripts/bench.mjs`, which has the servers. */
import { readArguments } from './figures.mjs';
import { describeMachine, printMachine } from './machine.mjs';
import { printFigure } from './table.mjs';

const { names, isQuick, isJson } = readArguments(process.argv.slice(2));
const machine = await describeMachine();
if (!isJson) printMachine(machine);

const figures = [];
for (const name of names) {
  const { measureFigure } = await import(`./figures/${name}.mjs`);
  const figure = await measureFigure({ isQuick, log: line => console.error(`${name}: ${line}`) });
  figures.push(figure);
  if (!isJson) printFigure(figure);
}
if (isJson) console.log(JSON.stringify({ machine, is_quick: isQuick, figures }, null, 2));
// Rivals leave timers and pools behind.
process.exit(0);
