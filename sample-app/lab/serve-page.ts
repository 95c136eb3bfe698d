// The page, as Vite has built it.
import { fileURLToPath } from 'node:url';

import type { NestExpressApplication } from '@nestjs/platform-express';

/**
 * Serves the page at `/` to browsers, and its files. Other clients, such as curl, get the answer
 * that the application gives there without a page.
 */
export function servePage(app: NestExpressApplication): void {
  app.use((request: PageRequest, response: PageResponse, next: () => void) => {
    response.setHeader('Content-Security-Policy', POLICY);
    const isHome = request.method === 'GET' && request.path === '/';
    response.vary('Accept');
    if (isHome && request.accepts(['text', 'html']) === 'html') {
      response.sendFile('index.html', { root: FOLDER });
    } else next();
  });
  app.useStaticAssets(FOLDER, { index: false });
}

// The part of Express that is used here.
interface PageRequest {
  readonly method: string;
  readonly path: string;
  accepts(types: readonly string[]): string | false;
}
interface PageResponse {
  setHeader(name: string, value: string): void;
  vary(header: string): void;
  sendFile(path: string, options: { readonly root: string }): void;
}

const FOLDER = fileURLToPath(new URL('../../page', import.meta.url));

// Loads nothing from elsewhere, and nobody may frame it: a click here can kill a process.
const POLICY = "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'";
