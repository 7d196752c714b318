import type { FastifyReply, FastifyRequest } from "fastify";
import { writableState } from "./request-state.ts";

/** The client left before the response. */
export class ClientGone extends Error {
  override readonly name = "ClientGone";

  constructor(options?: { cause?: unknown }) {
    super("the client has gone", options);
  }
}

export type OnCompleted = (request: FastifyRequest, reply: FastifyReply) => void;

/**
 * Fastify's `onResponse` is not called after a client has left, but the result must still be recorded.
 */
export interface Completion {
  watch(request: FastifyRequest, reply: FastifyReply): void;
  decided(request: FastifyRequest, reply: FastifyReply): void;
  /** Called automatically, except for WebSockets. */
  closed(request: FastifyRequest, reply: FastifyReply): void;
}

export function createCompletion(onCompleted: OnCompleted): Completion {
  const complete: OnCompleted = (request, reply) => {
    writableState(request).phase = "completed";
    onCompleted(request, reply);
  };
  const closed: Completion["closed"] = (request, reply) => {
    if (isClosed(request)) return;
    if (request.state.phase === "decided") complete(request, reply);
    else writableState(request).phase = "closed";
    request.state.exchange?.abandon();
  };
  return {
    watch: (request, reply) => void reply.raw.once("close", () => closed(request, reply)),
    decided(request, reply) {
      if (request.state.phase === "closed") complete(request, reply);
      else if (request.state.phase === "open") writableState(request).phase = "decided";
    },
    closed,
  };
}

export function isClosed({ state: { phase } }: FastifyRequest): boolean {
  return phase === "closed" || phase === "completed";
}
