import type { FastifyReply, FastifyRequest } from "fastify";
import { Pool } from "undici";
import { DomainError } from "../service-kit/errors.ts";
import { ClientGone } from "./client-gone.ts";
import { limitedBody } from "./limited-body.ts";
import { principalOf } from "./principal.ts";
import type { UpstreamRoute } from "./routes-file.ts";
import { upstreamFailure } from "./upstream-error.ts";
import { downstreamHeaders, upstreamHeaders } from "./upstream-headers.ts";

/** Calls to one upstream at a time. There is no queue behind it: one more is refused at once. */
const MAX_UPSTREAM_CALLS = 1_024;
const MAX_CONNECT_MS = 2_000;

/** Forwards requests to one upstream. */
export interface Forwarder {
  /** @param path the path and query to ask for, as the client wrote them. */
  forward(request: FastifyRequest, reply: FastifyReply, path: string): Promise<FastifyReply>;
  close(): Promise<void>;
}

/**
 * A forwarder with connections of its own. Bodies pass both ways as streams. Nothing is tried twice: whether
 * the first try had an effect is not known here. A client that leaves takes its upstream call with it.
 *
 * `forward` throws `payload_too_large`, `upstream_unavailable`, `upstream_timeout`, or ClientGone.
 */
export function createForwarder(route: UpstreamRoute): Forwarder {
  const pool = new Pool(route.upstream, {
    connections: MAX_UPSTREAM_CALLS,
    pipelining: 1,
    headersTimeout: route.timeoutMs,
    bodyTimeout: route.timeoutMs,
    connect: { timeout: Math.min(route.timeoutMs, MAX_CONNECT_MS) },
  });
  let openCalls = 0;

  return {
    async forward(request, reply, path) {
      // It may have left while the audit log was written. Nothing was sent, and no `close` will come any more.
      if (reply.raw.destroyed) throw new ClientGone();
      if (openCalls >= MAX_UPSTREAM_CALLS) throw new DomainError("service_unavailable");
      openCalls += 1;
      reply.raw.once("close", () => {
        openCalls -= 1;
      });
      const body = bodyOf(request, route.bodyLimitBytes);
      const gone = abortWhenGone(reply);
      try {
        const response = await pool.request({
          path,
          method: request.method,
          headers: upstreamHeaders(request.raw.rawHeaders, {
            principal: principalOf(request),
            accessToken: request.accessToken,
            call: request.call,
          }),
          body,
          signal: gone,
        });
        reply.code(response.statusCode).headers(downstreamHeaders(response.headers));
        return reply.send(response.body);
      } catch (thrown) {
        const { error, isEffectUncertain } = upstreamFailure(thrown);
        request.isEffectUncertain = gone.aborted || isEffectUncertain;
        throw gone.aborted ? new ClientGone({ cause: thrown }) : error;
      }
    },
    close: () => pool.close(),
  };
}

function bodyOf({ raw, headers }: FastifyRequest, maxBytes: number) {
  const length = Number(headers["content-length"] ?? 0);
  if (length > maxBytes) throw new DomainError("payload_too_large");
  const hasBody = length > 0 || headers["transfer-encoding"] !== undefined;
  return hasBody ? limitedBody(raw, maxBytes) : null;
}

/** Aborts when the connection closes before the answer is complete. */
function abortWhenGone(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  reply.raw.once("close", () => {
    if (!reply.raw.writableFinished) gone.abort();
  });
  return gone.signal;
}
