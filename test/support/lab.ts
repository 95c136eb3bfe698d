// The sample app as a process of its own, and a browser that shows its page.
import { spawnSync } from 'node:child_process';
import { existsSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';

import { chromium, type Browser, type BrowserContextOptions } from 'playwright-core';

import { BoundProcess } from '../../sample-app/infrastructure/bound-process.js';
import { compile } from './compile.js';
import { LabPage } from './lab-page.js';

/** The lab at work. */
export class Lab {
  private constructor(
    private readonly folder: string,
    private readonly browser: Browser,
    private server: LabServer,
  ) {}

  static async start(): Promise<Lab> {
    const folder = compile('lib', 'sample-app');
    const [browser, server] = await Promise.all([startBrowser(), startServer(folder)]);
    return new Lab(folder, browser, server);
  }

  /** Opens the page, and waits until all nodes vote. */
  open(options: BrowserContextOptions = {}): Promise<LabPage> {
    return LabPage.open(this.browser, this.server.url, options);
  }

  /** Ends the server by SIGKILL; the page stays open. */
  async kill(): Promise<void> {
    await this.server.kill();
  }

  /** Starts another server where the one was that was killed. */
  async restart(): Promise<void> {
    this.server = await startServer(this.folder, Number(new URL(this.server.url).port));
  }

  async stop(): Promise<void> {
    await Promise.all([this.server.kill(), this.browser.close()]);
    rmSync(this.folder, { recursive: true });
  }
}

interface LabServer {
  readonly url: string;
  kill(): Promise<void>;
}

/** Starts the browser that is installed here. */
async function startBrowser(): Promise<Browser> {
  const [executablePath] = ['chromium', 'chromium-browser', 'google-chrome'].flatMap((command) => {
    const path = spawnSync('sh', ['-c', `command -v ${command}`], { encoding: 'utf8' }).stdout;
    return path === '' ? [] : [path.trim()];
  });
  if (executablePath === undefined) {
    throw new Error('Expected chromium on PATH: run the tests by `npm test`, which installs it.');
  }
  // It has no sandbox of its own for root.
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
  return chromium.launch({ executablePath, args });
}

/** With the page that Vite has built. */
async function startServer(folder: string, port = 0): Promise<LabServer> {
  const page = join(import.meta.dirname, '../../dist/page');
  if (!existsSync(page)) throw new Error('Expected dist/page: run `npm run build:page` first.');
  if (!existsSync(join(folder, 'page'))) symlinkSync(page, join(folder, 'page'), 'dir');
  const child = new BoundProcess(process.execPath, [join(folder, 'sample-app/main.js')], {
    ...process.env,
    PORT: `${port}`,
  });
  const [, url = ''] = await child.line(/listening on (http:\S+:\d+)/);
  return { url, kill: () => child.end('SIGKILL') };
}
