/** The default port of the page; in a separate file, because `--help` names it too. */
export const DEFAULT_PORT = 4_600;
