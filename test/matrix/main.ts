// The application as a program: it has to end by itself.
import { run } from './application.js';

void run();
