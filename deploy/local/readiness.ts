import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { errorText } from "./launch-error.ts";

const POLL_MS = 50;
const ANSWER_TIMEOUT_MS = 1_000;
const ANSWER_SHOWN_CHARS = 300;

/**
 * Waits until a URL answers 200.
 *
 * @returns undefined then; or, after `timeoutMs`, what it answered last.
 */
export async function untilReady(url: string, timeoutMs = 60_000): Promise<string | undefined> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const problem = await readinessProblem(url);
    if (problem === undefined) return undefined;
    if (performance.now() > deadline) return `${url} after ${timeoutMs / 1000} s: ${problem}`;
    await sleep(POLL_MS);
  }
}

async function readinessProblem(url: string): Promise<string | undefined> {
  try {
    // No agent: a connection kept alive would delay the end of the process asked.
    const request = get(url, { agent: false, signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) });
    const [response] = (await once(request, "response")) as [IncomingMessage];
    const body = await text(response);
    return response.statusCode === 200
      ? undefined
      : `${response.statusCode} ${body.slice(0, ANSWER_SHOWN_CHARS)}`;
  } catch (error) {
    return errorText(error);
  }
}
