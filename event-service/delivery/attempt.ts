import { Webhook } from "standardwebhooks";
import { createOutboundHttp, OutboundError, type ReachableNetwork } from "#outbound-http/outbound-http.ts";
import type { StreamEvent } from "../stream/event.ts";

/** Calls to one endpoint at the same time. Each endpoint has connections of its own, so a slow one takes none of the others'. */
export const MAX_AT_ONCE = 16;
const TIMEOUT_MS = 5_000;
/** Only the status of an answer counts. A longer answer is a failure. */
const MAX_ANSWER_BYTES = 64 * 1024;
const GONE = 410;

/** Safe to show: nothing comes from the receiver but its status. */
export interface AttemptResult {
  isDelivered: boolean;
  /** Whether the receiver asks for nothing more (Standard Webhooks 1.0). */
  isGone: boolean;
  /** 0 without an answer. */
  httpStatus: number;
  /** Empty if it was delivered. */
  problem: string;
  durationMs: number;
}

export type Sender = ReturnType<typeof createSender>;

export interface SenderTarget {
  url: string;
  /** At most two, the newest first. */
  secrets: readonly string[];
  networks: readonly ReachableNetwork[];
}

/** Sends to one endpoint. Follows no redirect, and reads no compressed answer. */
export function createSender({ url, secrets, networks }: SenderTarget) {
  const http = createOutboundHttp({
    network: networks,
    timeoutMs: TIMEOUT_MS,
    maxBytes: MAX_ANSWER_BYTES,
    maxRequests: MAX_AT_ONCE,
  });
  const signers = secrets.map((secret) => new Webhook(secret));
  return {
    /** A failure is a result. */
    async send({ id, body }: Pick<StreamEvent, "id" | "body">): Promise<AttemptResult> {
      const startedMs = performance.now();
      const at = new Date();
      const headers = {
        "content-type": "application/cloudevents+json; charset=utf-8",
        "user-agent": "Gatehouse",
        "webhook-id": id,
        "webhook-timestamp": String(Math.floor(at.getTime() / 1_000)),
        "webhook-signature": signers.map((signer) => signer.sign(id, at, body)).join(" "),
      };
      const outcome = await http.fetch(url, { method: "POST", headers, body }).then(
        ({ status, ok }) => ({ httpStatus: status, problem: ok ? "" : "status" }),
        (error: unknown) => ({ httpStatus: 0, problem: problemOf(error) }),
      );
      const { httpStatus, problem } = outcome;
      const durationMs = Math.round(performance.now() - startedMs);
      return { isDelivered: problem === "", isGone: httpStatus === GONE, httpStatus, problem, durationMs };
    },
    close: () => http.close(),
  };
}

function problemOf(error: unknown): string {
  if (error instanceof OutboundError) return error.problem;
  throw error;
}
