/** Where the page is served when nobody says otherwise; apart, because `--help` names it too. */
export const DEFAULT_PORT = 4_600;
