import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { http } from "#kit/values/http.ts";
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
    // Not `fetch`, which takes more time to load than all processes to answer. A kept-alive connection would delay their end.
    const signal = AbortSignal.timeout(ANSWER_TIMEOUT_MS);
    const request = http.get(url, { agent: false, signal }).on("error", () => {}); // Also after the response began.
    const [response] = (await once(request, "response")) as [IncomingMessage];
    const body = await text(response);
    const { statusCode } = response;
    return statusCode === 200 ? undefined : `${statusCode} ${body.slice(0, ANSWER_SHOWN_CHARS)}`;
  } catch (error) {
    return errorText((error as Error).cause ?? error); // The reason of a timeout.
  }
}
