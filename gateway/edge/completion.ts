import type { FastifyReply, FastifyRequest } from "fastify";

export type OnCompleted = (request: FastifyRequest, reply: FastifyReply) => void;

/**
 * Detects the end of a request. Fastify's `onResponse` is not called after a client has left, but the handler's result
 * must still be recorded.
 */
export interface Completion {
  watch(request: FastifyRequest, reply: FastifyReply): void;
  /** The response is known. */
  decided(request: FastifyRequest, reply: FastifyReply): void;
  /** Called automatically, except for WebSockets. */
  closed(request: FastifyRequest, reply: FastifyReply): void;
}

export function createCompletion(onCompleted: OnCompleted): Completion {
  const closed: Completion["closed"] = (request, reply) => {
    if (request.isClosed) return;
    request.isClosed = true;
    if (request.isDecided) onCompleted(request, reply);
    request.exchange?.abandon();
  };
  return {
    watch: (request, reply) => void reply.raw.once("close", () => closed(request, reply)),
    decided(request, reply) {
      if (request.isDecided) return;
      request.isDecided = true;
      if (request.isClosed) onCompleted(request, reply);
    },
    closed,
  };
}
