import { type Answer, type Endpoint, type GivenTo, httpCall } from "#clients/api/endpoint.ts";
import { GatehouseError, readData } from "#clients/browser/gateway-calls.ts";

export type Send = (url: string, init: RequestInit) => Promise<Response>;
/** In which an answer must come. */
export const DEADLINE_MS = 20_000;

/** Calls the API with JSON. @returns `data` of the answer. @throws {GatehouseError} */
export async function callApi<E extends Endpoint>(
  send: Send,
  endpoint: E,
  ...given: GivenTo<E>
): Promise<Answer<E>> {
  const { method, path, body } = httpCall(endpoint, ...given);
  const response = await send(path, {
    method,
    signal: AbortSignal.timeout(DEADLINE_MS),
    ...(body && { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
  }).catch(offline);
  return readData<Answer<E>>(response).catch(offline);
}

/** What fails without an answer has the code `offline`. */
export function offline(error: unknown): never {
  throw error instanceof GatehouseError ? error : new GatehouseError(0, { code: "offline" });
}
