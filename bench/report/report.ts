import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { renderMarkdown } from './markdown.js';
import { renderPlots } from './plots.js';
import { writeResults, type Results } from './results.js';

/** Writes results.json, results.md and the plots. */
export function writeReport(folder: string, results: Results): void {
  mkdirSync(folder, { recursive: true });
  writeResults(folder, results);
  writeFileSync(join(folder, 'results.md'), renderMarkdown(results));
  for (const { name, svg } of results.scenarios.flatMap((record) => renderPlots(record))) {
    writeFileSync(join(folder, name), svg);
  }
}
