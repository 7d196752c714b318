import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";

/** One call that would change something, as its client knows it. */
export interface Attempt {
  /** W3C trace id, of this call alone: so its entries are found although no answer had the request id. */
  traceId: string;
  kind: "payment" | "profile" | "login";
  userId: string;
  /** What it wrote: the payment's reference, the new first name. */
  value: string;
  /** Undefined: the client has no whole answer. */
  answer?: { status: number; requestId: string; errorCode: string | undefined };
}

export interface Client {
  userId: string;
  email: string;
  password: string;
  accessToken: string;
}

const ANSWER_TIMEOUT_MS = 5_000;
const PAUSE_AFTER_FAILURE_MS = 20;

/** Makes calls one after the other until the signal. Adds what it tried to `attempts`. */
export async function makeCalls(
  url: string,
  client: Client,
  { random, attempts, signal }: { random: () => number; attempts: Attempt[]; signal: AbortSignal },
): Promise<void> {
  while (!signal.aborted) {
    const attempt = await makeCall(url, client, random());
    attempts.push(attempt);
    if ((attempt.answer?.status ?? 503) >= 500) await sleep(PAUSE_AFTER_FAILURE_MS);
  }
}

export const wasCarriedOut = ({ answer }: Attempt): boolean => (answer?.status ?? 500) < 300;

async function makeCall(url: string, client: Client, dice: number): Promise<Attempt> {
  const traceId = randomBytes(16).toString("hex");
  const value = traceId.slice(0, 12);
  const kind = dice < 0.68 ? "payment" : dice < 0.98 ? "profile" : "login";
  const { method, path, body } = {
    payment: { method: "POST", path: "/payments", body: { reference: value } },
    profile: { method: "PATCH", path: "/auth/me", body: { firstName: value } },
    login: { method: "POST", path: "/auth/login", body: { email: client.email, password: client.password } },
  }[kind];
  const attempt: Attempt = { traceId, kind, value, userId: client.userId };
  try {
    const response = await fetch(url + path, {
      method,
      headers: {
        ...(kind === "login" ? {} : { authorization: `Bearer ${client.accessToken}` }),
        "content-type": "application/json",
        traceparent: `00-${traceId}-${traceId.slice(0, 16)}-01`,
      },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
    });
    const { data, error } = (await response.json()) as {
      data?: { accessToken?: string };
      error?: { code: string };
    };
    // Earlier sessions end with the twentieth login, and their tokens after 15 minutes.
    client.accessToken = data?.accessToken ?? client.accessToken;
    const requestId = response.headers.get("x-request-id") ?? "";
    return { ...attempt, answer: { status: response.status, requestId, errorCode: error?.code } };
  } catch {
    return attempt;
  }
}

/** An upstream that outlives every crash and knows what it has carried out. */
export async function startLedger() {
  /** How often each reference was paid. */
  const paid = new Map<string, number>();
  const server = createServer(async (request, response) => {
    const { reference } = JSON.parse(await text(request)) as { reference: string };
    paid.set(reference, (paid.get(reference) ?? 0) + 1);
    response
      .writeHead(201, { "content-type": "application/json" })
      .end(JSON.stringify({ data: { reference } }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    paid,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** Numbers from 0 to 1, the same for the same seed (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
