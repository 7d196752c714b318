import type { FastifyReply, FastifyRequest } from "fastify";

/** Called once for each request, when it has been decided and its connection is done with it. */
export type OnCompleted = (request: FastifyRequest, reply: FastifyReply) => void;

/**
 * Tells when a request is over: its answer is known and was sent, or the client has gone. A client that goes
 * early does not end its request: what the handler did is still to be recorded. Fastify's `onResponse` is not
 * called for such requests.
 */
export interface Completion {
  /** For the first hook. */
  watch(request: FastifyRequest, reply: FastifyReply): void;
  /** The answer is known. */
  decided(request: FastifyRequest, reply: FastifyReply): void;
  /** The connection is done with the request; called by itself for all but WebSockets. */
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
