// How much of what happened is kept, by the server and by the page.

/** Two minutes of a quick sale. */
export const VISITS_KEPT = 3_000;
/** Log lines of each kind. */
export const LINES_KEPT = 100;
