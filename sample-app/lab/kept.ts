// How much of what happened the server keeps, and the page too.

/** Two minutes of a quick sale. */
export const VISITS_KEPT = 3_000;
/** Log lines of each kind. */
export const LINES_KEPT = 100;
