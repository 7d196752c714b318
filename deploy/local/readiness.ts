import { errorText } from "./launch-error.ts";
import { untilNone } from "./poll.ts";

const ANSWER_TIMEOUT_MS = 1_000;
const ANSWER_SHOWN_CHARS = 300;

/**
 * Waits until a URL answers 200.
 *
 * @returns undefined then; or, after `timeoutMs`, what it answered last.
 */
export async function untilReady(url: string, timeoutMs = 60_000): Promise<string | undefined> {
  const problem = await untilNone(() => readinessProblem(url), timeoutMs);
  return problem && `${url} after ${timeoutMs / 1000} s: ${problem}`;
}

async function readinessProblem(url: string): Promise<string | undefined> {
  try {
    // A connection kept alive would delay the end of the process asked.
    const headers = { connection: "close" };
    const response = await fetch(url, { headers, signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) });
    const body = await response.text();
    return response.ok ? undefined : `${response.status} ${body.slice(0, ANSWER_SHOWN_CHARS)}`;
  } catch (error) {
    return errorText(error instanceof TypeError ? error.cause : error); // fetch's own error says only that it failed
  }
}
