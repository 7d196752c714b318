import type { IncomingMessage, ServerResponse } from "node:http";
import { clientAddress } from "./client-address.ts";
import { httpRefusal, type OnRefusal, REFUSAL_TYPE, withStatus } from "./http-refusal.ts";
import type { RequestVerifier } from "./principal.ts";
import { admitRequest, type RouteDemand } from "./request-principal.ts";

export interface ExpressBearerAuthOptions extends RouteDemand {
  verifier: RequestVerifier;
  /**
   * The address of the client, never of a proxy: one network may have a share of the calls of token-service. Default: `request.ip` of
   * Express, which goes by `trust proxy`, unless it is of a private network.
   */
  clientIp?: (request: IncomingMessage) => string | undefined;
  /** Default `answer`. `next`: the error goes to the application's error handler, with its `statusCode`, and its headers are set. */
  onRefusal?: OnRefusal;
}

const expressIp = (request: IncomingMessage & { ip?: string | undefined }) =>
  clientAddress(request.ip ?? request.socket.remoteAddress);

/** Of Express 4 and 5, and of all that know its middleware. */
export type BearerMiddleware = (
  request: IncomingMessage,
  response: ServerResponse,
  next: (error?: unknown) => void,
) => void;

/** Goes before a route, or a router, and says who may call it. Defects go to the application's error handler. */
export function expressBearerAuth({
  verifier,
  clientIp = expressIp,
  onRefusal = "answer",
  ...demand
}: ExpressBearerAuthOptions): BearerMiddleware {
  const admit = async (request: IncomingMessage) =>
    admitRequest(request, verifier, demand, clientIp(request));
  return (request, response, next) => {
    admit(request).then(
      () => next(),
      (error: unknown) => {
        const refusal = httpRefusal(error, request.headers.authorization);
        if (refusal === undefined) return next(error);
        // The application has given up the call meanwhile, and an error that is thrown here would end the process.
        if (response.headersSent) return;
        for (const [name, value] of refusal.headers) response.setHeader(name, value);
        if (onRefusal === "next") return next(withStatus(error, refusal));
        response.statusCode = refusal.statusCode;
        response.setHeader("content-type", REFUSAL_TYPE);
        response.end(refusal.body);
      },
    );
  };
}
