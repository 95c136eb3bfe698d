// Requests, as the client and as the server see them.
import { type ExecutionContext } from '@nestjs/common';

export interface Request {
  readonly params: Record<string, string>;
  readonly headers: Record<string, string>;
}

export function requestOf(context: ExecutionContext): Request {
  return context.switchToHttp().getRequest<Request>();
}

export async function get(url: string, path: string, init?: RequestInit) {
  const response = await fetch(url + path, init);
  return { status: response.status, body: await response.text(), headers: response.headers };
}

export async function getJson(url: string, path: string) {
  const { status, body, headers } = await get(url, path);
  return { status, retryAfter: headers.get('retry-after'), body: JSON.parse(body) as unknown };
}
