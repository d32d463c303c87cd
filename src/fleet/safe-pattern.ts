/**
 * Regular expressions from untrusted senders, in time that grows with the length of pattern and text, and never with
 * the number of possible matches: all of them are followed at once. Of Python's `re` this supports characters, `.`, `[…]`,
 * `\d \w \s` and their opposites, groups, `|`, `* + ?`, `^` and `$`. What cannot be matched this way (counts,
 * backreferences, lookaround, flags) is refused.
 */
export class SafePattern {
  readonly #program: readonly Step[];

  /** Throws for a pattern that is not supported. */
  constructor(source: string) {
    this.#program = new Reader(source).readAll();
  }

  /** Whether the text starts with a match, as Python's `re.match` does. */
  test(text: string): boolean {
    const chars = Array.from(text);
    let states = this.#follow([0], 0, chars.length);
    for (const [at, char] of chars.entries()) {
      if (states.has(this.#program.length)) return true;
      const next: number[] = [];
      for (const state of states) {
        const step = this.#program[state];
        if (step?.kind === 'char' && step.fits(char)) next.push(state + 1);
      }
      states = this.#follow(next, at + 1, chars.length);
    }
    return states.has(this.#program.length);
  }

  /** All states that are reachable without a further character. Each is entered once, so this ends. */
  #follow(from: readonly number[], at: number, end: number): ReadonlySet<number> {
    const found = new Set<number>();
    const open = [...from];
    for (let last = open.pop(); last !== undefined; last = open.pop()) {
      const state = last;
      if (found.has(state)) continue;
      found.add(state);
      const step = this.#program[state];
      if (step?.kind === 'jump') open.push(...step.to.map(by => state + by));
      if (step?.kind === 'edge' && at === (step.isEnd ? end : 0)) open.push(state + 1);
    }
    return found;
  }
}

/** Jumps are relative, so that programs can be concatenated. The end of a program is the index after its last step. */
type Step =
  | { readonly kind: 'char'; readonly fits: (char: string) => boolean }
  | { readonly kind: 'jump'; readonly to: readonly number[] }
  | { readonly kind: 'edge'; readonly isEnd: boolean };
type Program = readonly Step[];

const jump = (...to: readonly number[]): Step => ({ kind: 'jump', to });
const isDigit = (char: string): boolean => /\d/u.test(char);
const isWord = (char: string): boolean => /[\p{L}\p{N}_]/u.test(char);
const isSpace = (char: string): boolean => /\s/u.test(char);
const not =
  (fits: (char: string) => boolean) =>
  (char: string): boolean =>
    !fits(char);
const CLASSES: Readonly<Record<string, (char: string) => boolean>> = {
  d: isDigit,
  D: not(isDigit),
  w: isWord,
  W: not(isWord),
  s: isSpace,
  S: not(isSpace),
};

/** Reads a pattern from left to right, and each character of it once. */
class Reader {
  readonly #chars: readonly string[];
  #at = 0;

  constructor(source: string) {
    this.#chars = Array.from(source);
  }

  readAll(): Program {
    const program = this.#readChoice();
    if (this.#at < this.#chars.length) throw unread(this.#chars[this.#at]);
    return program;
  }

  #readChoice(): Program {
    let program = this.#readSequence();
    while (this.#take('|')) {
      const other = this.#readSequence();
      program = [jump(1, program.length + 2), ...program, jump(other.length + 1), ...other];
    }
    return program;
  }

  #readSequence(): Program {
    const steps: Step[] = [];
    for (let next = this.#peek(); next !== undefined; next = this.#peek()) {
      if (next === '|' || next === ')') break;
      steps.push(...this.#readRepeated());
    }
    return steps;
  }

  #readRepeated(): Program {
    const one = this.#readOne();
    const sign = this.#peek();
    if (sign === '{') throw unread('{');
    if (sign !== '*' && sign !== '+' && sign !== '?') return one;
    if (one.length === 1 && one[0]?.kind === 'edge') throw unread(sign);
    this.#at += 1;
    // Lazy or greedy: the same texts match.
    this.#take('?');
    const next = this.#peek();
    if (next === '*' || next === '+' || next === '?' || next === '{') throw unread(next);
    const { length } = one;
    if (sign === '?') return [jump(1, length + 1), ...one];
    if (sign === '+') return [...one, jump(-length, 1)];
    return [jump(1, length + 2), ...one, jump(-length, 1)];
  }

  #readOne(): Program {
    const char = this.#next();
    switch (char) {
      case '(':
        return this.#readGroup();
      case '[':
        return [{ kind: 'char', fits: this.#readSet() }];
      case '.':
        return [{ kind: 'char', fits: other => other !== '\n' }];
      case '^':
      case '$':
        return [{ kind: 'edge', isEnd: char === '$' }];
      case '\\':
        return [{ kind: 'char', fits: this.#readEscape() }];
      case '*':
      case '+':
      case '?':
      case '{':
        throw unread(char);
      default:
        return [{ kind: 'char', fits: other => other === char }];
    }
  }

  #readGroup(): Program {
    if (this.#take('?') && !this.#take(':')) throw unread('(?');
    const inside = this.#readChoice();
    if (!this.#take(')')) throw new SyntaxError('a group is not closed');
    return inside;
  }

  #readEscape(): (char: string) => boolean {
    const char = this.#next();
    const known = CLASSES[char];
    if (known !== undefined) return known;
    // A letter or a digit has a special meaning there that is not supported here.
    if (/[A-Za-z0-9]/.test(char)) throw unread(`\\${char}`);
    return other => other === char;
  }

  #readSet(): (char: string) => boolean {
    const isNegated = this.#take('^');
    const members: ((char: string) => boolean)[] = [];
    for (let isFirst = true; isFirst || this.#peek() !== ']'; isFirst = false)
      members.push(this.#readMember());
    this.#at += 1;
    const fits = (char: string): boolean => members.some(member => member(char));
    return isNegated ? not(fits) : fits;
  }

  #readMember(): (char: string) => boolean {
    const first = this.#next();
    if (first === '\\') return this.#readEscape();
    const isRange = this.#peek() === '-' && this.#chars[this.#at + 1] !== ']';
    if (!isRange) return char => char === first;
    this.#at += 1;
    const last = this.#next();
    if (last === '\\' || last < first) throw unread(`${first}-${last}`);
    return char => char >= first && char <= last;
  }

  #peek(): string | undefined {
    return this.#chars[this.#at];
  }

  #take(char: string): boolean {
    if (this.#peek() !== char) return false;
    this.#at += 1;
    return true;
  }

  #next(): string {
    const char = this.#chars[this.#at];
    if (char === undefined) throw new SyntaxError('it ends too soon');
    this.#at += 1;
    return char;
  }
}

const unread = (what: string | undefined): SyntaxError =>
  new SyntaxError(`\`${what}\` is not read in patterns`);
