import { errorText } from "./launch-error.ts";
import { untilNone } from "./poll.ts";

const ANSWER_TIMEOUT_MS = 1_000;
const ANSWER_SHOWN_CHARS = 300;

/** @returns undefined once the URL answers 200, or the last problem after `timeoutMs`. */
export async function untilReady(url: string, timeoutMs = 60_000): Promise<string | undefined> {
  const problem = await untilNone(() => readinessProblem(url), timeoutMs);
  return problem && `${url} after ${timeoutMs / 1000} s: ${problem}`;
}

async function readinessProblem(url: string): Promise<string | undefined> {
  try {
    // A kept-alive connection would delay the end of the process.
    const headers = { connection: "close" };
    const response = await fetch(url, { headers, signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) });
    const body = await response.text();
    return response.ok ? undefined : `${response.status} ${body.slice(0, ANSWER_SHOWN_CHARS)}`;
  } catch (error) {
    return errorText(error instanceof TypeError ? error.cause : error); // The error of `fetch` has no details.
  }
}
