import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

/** One HTTP answer, as a client sees it. */
export interface Answer {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the API sent and asserts on it
  body: any;
}

export interface Call {
  token?: string;
  body?: unknown;
  headers?: Record<string, string>;
}

/** Not `application/x-ndjson`, which has a document in each line. */
const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json\b/;

export interface ApiClientOptions {
  /** Repeats calls that are answered 503. Default true. */
  isPatient?: boolean;
}

/** Calls the gateway as an external client would: over HTTP, with JSON. */
export function apiClient(url: string, { isPatient = true }: ApiClientOptions = {}) {
  const send = isPatient ? patientFetch : fetch;

  async function call(
    method: string,
    path: string,
    { token, body, headers = {} }: Call = {},
  ): Promise<Answer> {
    const response = await send(url + path, {
      method,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
      signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
    });
    const text = await response.text();
    const isJson = JSON_TYPE.test(response.headers.get("content-type") ?? "");
    return {
      status: response.status,
      headers: response.headers,
      body: isJson && text !== "" ? JSON.parse(text) : text,
    };
  }

  const post = (path: string, body?: unknown, options: Call = {}) => call("POST", path, { body, ...options });

  return {
    call,
    post,
    get: (path: string, options: Call = {}) => call("GET", path, options),
    async logIn(credentials: { email: string; password: string }) {
      const answer = await post("/auth/login", { email: credentials.email, password: credentials.password });
      if (answer.status !== 200) throw new Error(`login: ${answer.status} ${JSON.stringify(answer.body)}`);
      return answer.body.data as { accessToken: string; refreshToken: string; user: { id: string } };
    },
    /** A new user, logged in. */
    async newUser() {
      const credentials = { email: `user-${randomUUID()}@example.com`, password: "correct horse battery" };
      const answer = await post("/auth/register", { ...credentials, firstName: "Ada", lastName: "Lovelace" });
      // 409: a repeated call of which the first had its effect.
      if (answer.status !== 201 && answer.status !== 409)
        throw new Error(`register: ${answer.status} ${JSON.stringify(answer.body)}`);
      return { ...credentials, ...(await this.logIn(credentials)) };
    },
  };
}

export type ApiClient = ReturnType<typeof apiClient>;

/** Of a call, with its repetitions. */
const PATIENCE_MS = 90_000;
const MAX_PAUSE_MS = 5_000;
const CALL_TIMEOUT_MS = 60_000;

/** `fetch` that repeats what is answered 503, as `Retry-After` asks: a busy machine needs longer than a call has. */
export async function patientFetch(
  url: Parameters<typeof fetch>[0],
  request?: RequestInit,
): Promise<Response> {
  const endMs = Date.now() + PATIENCE_MS;
  for (let pauseMs = 250; ; pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS)) {
    const response = await fetch(url, { ...request, signal: AbortSignal.timeout(CALL_TIMEOUT_MS) });
    if (response.status !== 503 || Date.now() > endMs) return response;
    await response.body?.cancel();
    await sleep(pauseMs * (0.5 + Math.random()));
  }
}
