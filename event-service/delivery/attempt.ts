import { Webhook } from "standardwebhooks";
import { createNameLookup } from "#outbound-http/name-lookup.ts";
import { createOutboundHttp, OutboundError, type ReachableNetwork } from "#outbound-http/outbound-http.ts";
import { retryAfterMs } from "#outbound-http/retry-after.ts";
import type { StreamEvent } from "../stream/event.ts";

/** Calls to one endpoint at the same time. Each endpoint has connections of its own, so a slow one takes none of the others'. */
export const MAX_AT_ONCE = 16;
const TIMEOUT_MS = 5_000;
/** Only the status of an answer counts. A longer answer is a failure. */
const MAX_ANSWER_BYTES = 64 * 1024;
const GONE = 410;
/** What a receiver may ask for. */
const MAX_ASKED_PAUSE_MS = 3_600_000;

/** Safe to show: nothing comes from the receiver but its status. */
export interface AttemptResult {
  isDelivered: boolean;
  /** Whether the receiver asks for nothing more (Standard Webhooks 1.0). */
  isGone: boolean;
  /** How long it asks to be left alone when it has not taken the event. */
  pauseMs: number;
  /** 0 without an answer. */
  httpStatus: number;
  /** Empty if it was delivered. */
  problem: string;
  durationMs: number;
}

const findAddresses = createNameLookup();

export type Sender = ReturnType<typeof createSender>;

type SentEvent = Pick<StreamEvent, "id" | "body">;

/** What is sent of an event. @throws if that is not known now, which is no failure of the receiver. */
export type Dress = (event: SentEvent) => Promise<{ headers: Record<string, string>; body: string }>;

export interface SenderTarget {
  url: string;
  networks: readonly ReachableNetwork[];
}

/** As Standard Webhooks 1.0 has it. @param secrets at most two, the newest first. */
export function asWebhook(secrets: readonly string[]): Dress {
  const signers = secrets.map((secret) => new Webhook(secret));
  return async ({ id, body }) => {
    const at = new Date();
    const headers = {
      "content-type": "application/cloudevents+json; charset=utf-8",
      "webhook-id": id,
      "webhook-timestamp": String(Math.floor(at.getTime() / 1_000)),
      "webhook-signature": signers.map((signer) => signer.sign(id, at, body)).join(" "),
    };
    return { headers, body };
  };
}

interface WaitingSignal {
  id: string;
  /** A `SignalBody` in JSON. */
  body: string;
}

/** @returns a token for each, in their order. @throws {DomainError} `service_unavailable`. */
export type SignSignals = (audience: string, signals: readonly WaitingSignal[]) => Promise<string[]>;

/** A security event token, pushed (RFC 8935 §2.1). Signed when it is sent, because keys change. */
export function asPushedToken(sign: SignSignals, audience: string, authorization: string): Dress {
  return async (signal) => {
    const [body = ""] = await sign(audience, [signal]);
    const headers = {
      "content-type": "application/secevent+jwt",
      accept: "application/json",
      ...(authorization !== "" && { authorization }),
    };
    return { headers, body };
  };
}

/** Sends to one endpoint. Follows no redirect, and reads no compressed answer. */
export function createSender({ url, networks }: SenderTarget, dress: Dress) {
  const http = createOutboundHttp({
    network: networks,
    timeoutMs: TIMEOUT_MS,
    maxBytes: MAX_ANSWER_BYTES,
    maxRequests: MAX_AT_ONCE,
    lookup: findAddresses,
  });
  return {
    /** A failure of the receiver is a result. @throws as `dress`. */
    async send(event: SentEvent): Promise<AttemptResult> {
      const { headers: own, body } = await dress(event);
      const headers = { ...own, "user-agent": "Gatehouse" };
      const startedMs = performance.now();
      const outcome = await http.fetch(url, { method: "POST", headers, body }).then(
        (answer) => ({
          httpStatus: answer.status,
          problem: answer.ok ? "" : "status",
          pauseMs: answer.ok ? 0 : retryAfterMs(answer, new Date(), MAX_ASKED_PAUSE_MS),
        }),
        (error: unknown) => ({ httpStatus: 0, problem: problemOf(error), pauseMs: 0 }),
      );
      const durationMs = Math.round(performance.now() - startedMs);
      const { httpStatus, problem } = outcome;
      return { ...outcome, isDelivered: problem === "", isGone: httpStatus === GONE, durationMs };
    },
    close: () => http.close(),
  };
}

function problemOf(error: unknown): string {
  if (error instanceof OutboundError) return error.problem;
  throw error;
}
