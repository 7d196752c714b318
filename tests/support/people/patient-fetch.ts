import { setTimeout as sleep } from "node:timers/promises";

/** Of a call, with its repetitions. */
const PATIENCE_MS = 90_000;
const MAX_PAUSE_MS = 5_000;
export const CALL_TIMEOUT_MS = 60_000;

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
