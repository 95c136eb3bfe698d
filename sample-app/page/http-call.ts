/** A request to the server. */
export interface Call {
  readonly path: string;
  /** Null asks with GET. */
  readonly body: object | null;
}

/** What came back, as a client sees it on the wire. */
export interface Answer {
  readonly curl: string;
  readonly statusLine: string;
  readonly headers: string;
  readonly body: string;
  readonly isGood: boolean;
}

/** Sends a request, and writes its answer down. */
export async function readAnswer(call: Call): Promise<Answer> {
  const curl = curlOf(call, location.origin);
  try {
    const response = await fetch(call.path, requestOf(call));
    const headers = HEADERS.flatMap(([name, key]) => {
      const value = response.headers.get(key);
      return value === null ? [] : [`${name}: ${value}`];
    });
    return {
      curl,
      isGood: response.ok,
      headers: headers.join('\n'),
      statusLine: `HTTP/1.1 ${response.status} ${response.statusText}`,
      body: pretty(await response.text()),
    };
  } catch (error) {
    return { curl, statusLine: String(error), headers: '', body: '', isGood: false };
  }
}

/** The same request for a terminal. */
export function curlOf({ path, body }: Call, origin: string): string {
  if (body === null) return `curl -i '${origin}${path}'`;
  const json = `-H 'content-type: application/json' -d '${JSON.stringify(body)}'`;
  return `curl -i -X POST '${origin}${path}' ${json}`;
}

function requestOf({ body }: Call): RequestInit {
  if (body === null) return {};
  const headers = { 'content-type': 'application/json' };
  return { method: 'POST', headers, body: JSON.stringify(body) };
}

function pretty(text: string): string {
  return text === '' ? '' : JSON.stringify(JSON.parse(text), null, 2);
}

const HEADERS = [
  ['Retry-After', 'retry-after'],
  ['Content-Type', 'content-type'],
] as const;
