import type { FastifyReply, FastifyRequest, HTTPMethods } from "fastify";
import type { z } from "zod";
import type { AuditActor } from "#audit-client/stream/audit-entry.ts";
import type { ErrorCode } from "#kit/values/errors.ts";
import type { RouteDocs } from "../../routing/route-docs.ts";
import type { RoutePolicy } from "../../routing/route-policy.ts";
import type { Success } from "../answers/envelope.ts";
import { deliverTokens, type IssuedTokens } from "./browser-session.ts";
import { isDeviceToken, keepDeviceToken } from "./device-cookie.ts";
import { type FailurePage, type GatewayApp, writableState } from "./request-state.ts";

/** A part without a schema must be absent. */
interface RouteSchema {
  params?: z.ZodType;
  querystring?: z.ZodType;
  body?: z.ZodType;
  /** In place of `body` in a browser session, whose refresh token is in a cookie. */
  browserBody?: z.ZodType;
}

type Output<T> = T extends z.ZodType ? z.output<T> : unknown;

type ValidRequest<S extends RouteSchema> = FastifyRequest & {
  params: Output<S["params"]>;
  query: Output<S["querystring"]>;
  body: S extends { browserBody: z.ZodType } ? Output<S["body"] | S["browserBody"]> : Output<S["body"]>;
};

type Hook = (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>;

interface Identified {
  /** Null if the user is unknown. */
  actor: AuditActor | null;
  deviceToken?: string | undefined;
  /** Reported by a redirect. */
  refused?: ErrorCode | undefined;
}

/** Tokens join the data of the body. */
export type IdentifiedAnswer = Identified &
  ({ body: unknown; tokens?: never } | { body: Success<object>; tokens: IssuedTokens });

type Handler<S extends RouteSchema> =
  | { handler(request: ValidRequest<S>, reply: FastifyReply): unknown; identify?: never }
  | { identify(request: ValidRequest<S>, reply: FastifyReply): Promise<IdentifiedAnswer>; handler?: never };

interface RouteOptions<S extends RouteSchema> extends Omit<RouteDocs, "operationId" | "tag"> {
  policy: RoutePolicy;
  schema?: S;
  failurePage?: FailurePage;
  options?: { bodyLimit?: number; exposeHeadRoute?: boolean; onRequest?: Hook; preValidation?: Hook };
  /** Identifies the caller, otherwise than by an access token, before the audit intent. */
  proof?: { hook: "onRequest" | "preValidation"; prove(request: FastifyRequest): Promise<AuditActor | null> };
}

export type Route<S extends RouteSchema> = RouteOptions<S> & Handler<S>;

export function routeIn(app: GatewayApp, tag: RouteDocs["tag"]) {
  return <S extends RouteSchema>(operationId: string, method: HTTPMethods, url: string, route: Route<S>) => {
    const { policy, schema = {}, failurePage, options, proof, handler, identify, ...docs } = route;
    const config = { ...policy, ...(failurePage && { failurePage }), docs: { operationId, tag, ...docs } };
    app.route({
      ...options,
      ...(proof && {
        [proof.hook]: async (request: FastifyRequest) => noteProof(request, await proof.prove(request)),
      }),
      method,
      url,
      schema,
      config,
      handler: (request, reply) => {
        const valid = request as ValidRequest<S>;
        if (handler !== undefined) return handler(valid, reply);
        return identify(valid, reply).then((answer) => sendIdentified(request, reply, answer));
      },
    });
  };
}

/** The `onSend` hook needs the user for the audit log and the rate limits. */
function sendIdentified(
  request: FastifyRequest,
  reply: FastifyReply,
  answer: IdentifiedAnswer,
): FastifyReply {
  const { actor, deviceToken = "", refused } = answer;
  const isIssued = isDeviceToken(deviceToken);
  if (isIssued) keepDeviceToken(request, reply, deviceToken);
  noteProof(request, actor, isIssued ? deviceToken : null);
  if (refused !== undefined) writableState(request).errorCode = refused;
  return reply.send(bodyOf(request, reply, answer));
}

function bodyOf(request: FastifyRequest, reply: FastifyReply, { body, tokens }: IdentifiedAnswer): unknown {
  if (tokens === undefined) return body;
  return { ...body, data: { ...deliverTokens(request, reply, tokens), ...body.data } };
}

function noteProof(
  request: FastifyRequest,
  actor: AuditActor | null,
  deviceToken: string | null = null,
): void {
  if (actor !== null) writableState(request).proof = { actor, deviceToken };
}
