/** A failure that the gateway has answered. Decide by `code`: docs/errors.md. */
export class GatehouseError extends Error {
  override readonly name = "GatehouseError";
  readonly status: number;
  readonly code: string;
  readonly details: unknown;
  readonly requestId: string;

  constructor(status: number, { code = "", details, requestId = "" }: Failure, message: string) {
    super(message);
    this.status = status;
    this.code = code;
    this.details = details;
    this.requestId = requestId;
  }
}

interface Failure {
  code?: string;
  details?: unknown;
  requestId?: string;
}

interface Envelope {
  data?: unknown;
  message?: string;
  error?: Failure;
}

const TIMEOUT_MS = 30_000;

/** In JSON. The route reads or sets cookies of the gateway if `isBrowser`. */
export function jsonRequest(
  url: string,
  body: object | undefined,
  { isBrowser, token }: { isBrowser: boolean; token?: string | undefined },
): Request {
  const headers = new Headers();
  if (isBrowser) headers.set("gatehouse-client", "browser");
  if (token !== undefined) headers.set("authorization", `Bearer ${token}`);
  if (body !== undefined) headers.set("content-type", "application/json");
  return new Request(url, {
    method: "POST",
    headers,
    credentials: isBrowser ? "include" : "omit",
    signal: AbortSignal.timeout(TIMEOUT_MS),
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
}

/** @returns `data`. @throws {GatehouseError} */
export async function readData<T>(response: Response): Promise<T> {
  const { data, error = {}, message = response.statusText } = await readEnvelope(response);
  if (!response.ok) throw new GatehouseError(response.status, error, message);
  return data as T;
}

/** @returns why the gateway has refused a call, if it has. The body stays readable. */
export async function readFailure(response: Response): Promise<Failure> {
  if (response.status !== 401 && response.status !== 403) return {};
  return (await readEnvelope(response.clone())).error ?? {};
}

/** An upstream's failure may be anything. */
async function readEnvelope(response: Response): Promise<Envelope> {
  const envelope: unknown = await response.json().catch(() => undefined);
  return typeof envelope === "object" && envelope !== null ? envelope : {};
}
