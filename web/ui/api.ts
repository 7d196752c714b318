/** A refusal of the API. `message` is for logs; `explain` has the text for people. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;
  /** Of docs/errors.md; `offline` if there was no answer. */
  readonly code: string;
  readonly requestId: string;
  readonly details: unknown;
  /** Seconds; 0 if the answer has none. */
  readonly retryAfterS: number;

  constructor(
    status: number,
    code: string,
    rest: Partial<Pick<ApiError, "requestId" | "details" | "retryAfterS">>,
  ) {
    super(`${status} ${code}`);
    this.status = status;
    this.code = code;
    this.requestId = rest.requestId ?? "";
    this.details = rest.details;
    this.retryAfterS = rest.retryAfterS ?? 0;
  }
}

export type Send = (url: string, init: RequestInit) => Promise<Response>;
const DEADLINE_MS = 20_000;

/** Calls the API with JSON. @returns `data` of the answer. @throws {ApiError} */
export async function callApi<T>(send: Send, method: string, url: string, body?: object): Promise<T> {
  const response = await send(url, {
    method,
    signal: AbortSignal.timeout(DEADLINE_MS),
    ...(body !== undefined && {
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    }),
  }).catch((error: unknown) => {
    throw error instanceof ApiError ? error : new ApiError(0, "offline", {});
  });
  return readAnswer<T>(response);
}

/** @throws {ApiError} for every answer that is no success. */
export async function readAnswer<T>(response: Response): Promise<T> {
  const answer = (await response.json().catch(() => ({}))) as {
    data?: T;
    error?: { code?: string; requestId?: string; details?: unknown };
  };
  if (response.ok && answer.data !== undefined) return answer.data;
  const { code = "internal_error", requestId, details } = answer.error ?? {};
  throw new ApiError(response.status, code, {
    requestId: requestId ?? response.headers.get("x-request-id") ?? "",
    details,
    retryAfterS: Number(response.headers.get("retry-after") ?? 0),
  });
}
