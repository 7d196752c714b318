import { GatehouseError } from "#clients/browser/gateway-calls.ts";

export type Send = (url: string, init: RequestInit) => Promise<Response>;
const DEADLINE_MS = 20_000;

/** Calls the API with JSON. @returns `data` of the answer. @throws {GatehouseError} */
export async function callApi<T>(send: Send, method: string, url: string, body?: object): Promise<T> {
  const response = await send(url, {
    method,
    signal: AbortSignal.timeout(DEADLINE_MS),
    ...(body !== undefined && {
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    }),
  }).catch(offline);
  return readAnswer<T>(response);
}

/** What fails without an answer has the code `offline`. */
export function offline(error: unknown): never {
  throw error instanceof GatehouseError ? error : new GatehouseError(0, { code: "offline" });
}

/** @throws {GatehouseError} for every answer that is no success, and `offline` for one that breaks off. */
export async function readAnswer<T>(response: Response): Promise<T> {
  const answer = (await response.json().catch((error: unknown) => {
    return error instanceof SyntaxError ? {} : offline(error);
  })) as {
    data?: T;
    error?: { code?: string; requestId?: string; details?: unknown };
  };
  if (response.ok && answer.data !== undefined) return answer.data;
  const { code = "internal_error", requestId, details } = answer.error ?? {};
  throw new GatehouseError(response.status, {
    code,
    requestId: requestId ?? response.headers.get("x-request-id") ?? "",
    details,
    retryAfterS: Number(response.headers.get("retry-after") ?? 0),
  });
}
