/** A failure that the gateway has answered. Decide by `code`: docs/errors.md. */
export class GatehouseError extends Error {
  override readonly name = "GatehouseError";
  declare readonly status: number;
  declare readonly code: string;
  declare readonly details: unknown;
  declare readonly requestId: string;
  /** Seconds after which the call may be tried again; 0 if the answer has none. */
  declare readonly retryAfterS: number;

  constructor(
    status: number,
    { code = "", details, requestId = "", retryAfterS = 0 }: Failure,
    message = code,
  ) {
    super(message);
    this.status = status;
    this.code = code;
    this.details = details;
    this.requestId = requestId;
    this.retryAfterS = retryAfterS;
  }
}

interface Failure {
  code?: string | undefined;
  details?: unknown;
  requestId?: string | undefined;
  retryAfterS?: number | undefined;
}

/** Of any JSON that was sent. */
type Envelope<T> = { message?: string; error?: Failure; data?: T } | null | undefined;

interface How {
  isBrowser: boolean;
  token?: string | undefined;
  /** Goes on although its page is left. */
  keepalive?: boolean;
}

const TIMEOUT_MS = 30_000;

/** Sent as JSON. The route reads or sets cookies of the gateway if `isBrowser`. */
export function jsonRequest(
  url: string,
  body: object | undefined,
  { isBrowser, token, keepalive = false }: How,
): Request {
  const headers = new Headers();
  if (isBrowser) headers.set("gatehouse-client", "browser");
  if (token !== undefined) headers.set("authorization", `Bearer ${token}`);
  if (body !== undefined) headers.set("content-type", "application/json");
  return new Request(url, {
    method: "POST",
    headers,
    credentials: isBrowser ? "include" : "omit",
    keepalive,
    signal: AbortSignal.timeout(TIMEOUT_MS),
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
}

/** No upstream can send this field: an answer without it is not the gateway's, whatever it says. */
const isGateways = ({ headers }: Response): boolean => headers.get("gatehouse-answer") === "gateway";

/**
 * Returned by a call of the gateway itself. @returns `data`. @throws {GatehouseError}, without a code for an answer that is not the
 * gateway's, and what `fetch` throws for an answer that breaks off.
 */
export async function readData<T>(response: Response): Promise<T> {
  const { ok, status, headers, statusText } = response;
  const answer = (isGateways(response) && (await readEnvelope<T>(response))) as Envelope<T>;
  if (ok && answer?.data) return answer.data;
  if (ok || !answer) throw new GatehouseError(status, {}, "The answer is not Gatehouse's.");
  const { error, message = statusText } = answer;
  throw new GatehouseError(status, { ...error, retryAfterS: Number(headers.get("retry-after")) }, message);
}

/** There is no session any more. */
export function unlessRefused(error: unknown): undefined {
  if (!(error instanceof GatehouseError) || error.status !== 401 || error.code === "") throw error;
}

/** @returns why the gateway has refused a call, if it has. The body stays readable. */
export async function readFailure(response: Response): Promise<Failure> {
  if ((response.status !== 401 && response.status !== 403) || !isGateways(response)) return {};
  return (await readEnvelope(response.clone()).catch(() => undefined))?.error ?? {};
}

/** Nothing of an answer that came whole and is no JSON. One that broke off is no answer: it throws. */
const readEnvelope = <T>(response: Response): Promise<Envelope<T>> =>
  response.json().catch((error: unknown) => {
    if (!(error instanceof SyntaxError)) throw error;
  }) as Promise<Envelope<T>>;
