import type { FastifyReply, FastifyRequest } from "fastify";
import type { GatewayApp } from "./request-state.ts";

/** Called once for each request, when it has been decided and its connection is done with it. */
export type OnCompleted = (request: FastifyRequest, reply: FastifyReply) => void;

/**
 * Tells when a request is over: its answer is known and was sent, or the client has gone. A client that goes
 * early does not end its request: what the handler did is still to be recorded. Fastify's `onResponse` is not
 * called for such requests.
 */
export function onCompleted(app: GatewayApp, completed: OnCompleted): void {
  const decided = new WeakSet<FastifyRequest>();
  const closed = new WeakSet<FastifyRequest>();

  app.addHook("onRequest", (request, reply, done) => {
    reply.raw.once("close", () => {
      closed.add(request);
      if (decided.has(request)) completed(request, reply);
    });
    done();
  });
  app.addHook("onSend", (request, reply, _payload, done) => {
    const isFirst = !decided.has(request);
    decided.add(request);
    if (isFirst && closed.has(request)) completed(request, reply);
    done();
  });
}
