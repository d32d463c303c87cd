/**
 * The part of the browser API that the page uses. The compiler's own DOM library would give every file of
 * the server the browser's globals (`name`, `status`, `close`), and a typo would compile.
 */
export interface PageElement {
  textContent: string | null;
  className: string;
  hidden: boolean;
  value: string;
  readonly classList: { toggle(name: string, isOn: boolean): void };
  readonly dataset: Record<string, string | undefined>;
  append(...children: readonly PageElement[]): void;
  prepend(...children: readonly PageElement[]): void;
  replaceChildren(...children: readonly PageElement[]): void;
  contains(other: PageElement | null): boolean;
  querySelector(selector: string): PageElement | null;
  querySelectorAll(selector: string): Iterable<PageElement>;
  setAttribute(name: string, value: string): void;
  addEventListener(type: string, listener: (event: PageEvent) => void): void;
  focus(): void;
  remove(): void;
}

export interface PageEvent {
  readonly submitter?: PageElement | null;
  readonly data?: string;
  preventDefault(): void;
}

interface PageDocument {
  readonly body: PageElement;
  readonly activeElement: PageElement | null;
  getElementById(id: string): PageElement | null;
  createElement(tag: string): PageElement;
}

interface LiveSource {
  addEventListener(type: string, listener: (event: PageEvent) => void): void;
}

export interface Browser {
  readonly document: PageDocument;
  readonly EventSource: new (path: string) => LiveSource;
}

const browser = globalThis as unknown as Browser;

export const page: PageDocument = browser.document;

export function openLive(path: string): LiveSource {
  return new browser.EventSource(path);
}

/** An element of the page as it was sent. */
export function byId(id: string): PageElement {
  const found = page.getElementById(id);
  if (found === null) throw new Error(`the page has no #${id}`);
  return found;
}

export type Attributes = Readonly<Record<string, string>>;

/** A new element. Text from a task or a person goes in as text, never as markup. */
export function make(
  tag: string,
  attributes: Attributes,
  content: string | readonly PageElement[] = [],
): PageElement {
  const element = page.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (typeof content === 'string') element.textContent = content;
  else element.append(...content);
  return element;
}
