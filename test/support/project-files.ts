// The files of the project that are looked at by rule, so that a new one is checked like the others.
import { readdirSync } from 'node:fs';
import { join, sep } from 'node:path';

const root = join(import.meta.dirname, '../..');
const isWritten = (file: string): boolean =>
  file.endsWith('.md') && !/^(api|bench\/results|docs\/api|test\/simulation)\//.test(file);
const places = readdirSync(root, { withFileTypes: true }).filter(
  ({ name }) => !/^\.|^(node_modules|dist|coverage)$/.test(name),
);

/** What people have written to be read, wherever it is: paths from the root of the project. */
export const documents: readonly string[] = places
  .flatMap((place) => (place.isDirectory() ? filesBelow(place.name) : [place.name]))
  .filter(isWritten);

/** The paths of all files of a folder and those in it, from the root of the project. */
export function filesBelow(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map(
    (name) => `${folder}/${name.split(sep).join('/')}`,
  );
}
