/** A request to the server. */
export interface Call {
  readonly path: string;
  /** Null for a GET. */
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

/** Sends a request and records its answer. */
export async function readAnswer(call: Call): Promise<Answer> {
  const curl = curlOf(call, location.origin);
  try {
    const response = await (call.body === null ? fetch(call.path) : post(call.path, call.body));
    const headers = HEADERS.flatMap((name) => {
      const value = response.headers.get(name);
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

/** Posts JSON. */
export function post(path: string, body: object): Promise<Response> {
  const headers = { 'content-type': 'application/json' };
  return fetch(path, { method: 'POST', headers, body: JSON.stringify(body) });
}

/** The same request as a command for a terminal. */
export function curlOf({ path, body }: Call, origin: string): string {
  if (body === null) return `curl -i '${origin}${path}'`;
  const json = `-H 'content-type: application/json' -d '${JSON.stringify(body)}'`;
  return `curl -i -X POST '${origin}${path}' ${json}`;
}

function pretty(text: string): string {
  return text === '' ? '' : JSON.stringify(JSON.parse(text), null, 2);
}

const HEADERS = ['Retry-After', 'Content-Type'];
