// The same file for jest and vitest, both with globals.
import './symbols.js';
import { run } from './application.js';

declare const test: (fact: string, body: () => Promise<void>) => void;

test('the application locks, excludes and closes', run);
