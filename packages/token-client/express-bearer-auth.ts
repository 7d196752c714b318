import type { IncomingMessage, ServerResponse } from "node:http";
import { type AssuranceDemand, assertAssured } from "./assurance.ts";
import { authorizationsOf, verifyAuthorization } from "./bearer-token.ts";
import { clientAddress } from "./client-address.ts";
import { httpRefusal, type OnRefusal, REFUSAL_TYPE, withStatus } from "./http-refusal.ts";
import type { Principal, RequestVerifier } from "./principal.ts";
import { assertAllowed, type RouteAuth } from "./route-auth.ts";

export interface ExpressBearerAuthOptions {
  verifier: RequestVerifier;
  auth: Exclude<RouteAuth, "public">;
  /** What the session of the caller must have proven. */
  assurance?: AssuranceDemand;
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

const principals = new WeakMap<IncomingMessage, Principal>();

/** Goes before a route, or a router, and says who may call it. Defects go to the application's error handler. */
export function expressBearerAuth({
  verifier,
  auth,
  assurance,
  clientIp = expressIp,
  onRefusal = "answer",
}: ExpressBearerAuthOptions): BearerMiddleware {
  return (request, response, next) => {
    admit(request).then(
      () => next(),
      (error: unknown) => {
        const refusal = httpRefusal(error, request.headers.authorization);
        if (refusal === undefined) return next(error);
        for (const [name, value] of refusal.headers) response.setHeader(name, value);
        if (onRefusal === "next") return next(withStatus(error, refusal));
        response.statusCode = refusal.statusCode;
        response.setHeader("content-type", REFUSAL_TYPE);
        response.end(refusal.body);
      },
    );
  };

  async function admit(request: IncomingMessage): Promise<void> {
    const principal = await verifyAuthorization(verifier, authorizationsOf(request), clientIp(request));
    assertAllowed(auth, principal);
    assertAssured(assurance, principal, verifier.nowMs());
    principals.set(request, principal);
  }
}

/** @throws if no middleware of `expressBearerAuth` stands before the route. */
export function principalOfRequest(request: IncomingMessage): Principal {
  const principal = principals.get(request);
  if (principal === undefined) throw new Error(`${request.url} is public and has no principal`);
  return principal;
}
