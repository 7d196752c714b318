import type { IncomingMessage, ServerResponse } from "node:http";
import type { FastifyInstance, FastifyRequest, FastifyTypeProvider, RawServerDefault } from "fastify";
import type { z } from "zod";
import type { AuditActor, AuditedCall } from "../audit-client/audit-entry.ts";
import type { CallContext } from "../service-kit/call-context.ts";
import type { DomainError, ErrorCode } from "../service-kit/errors.ts";
import type { Logger } from "../service-kit/logger.ts";
import type { CallSpan } from "../service-kit/tracing.ts";
import type { Principal } from "../token-client/principal.ts";
import type { RouteAuth } from "../token-client/route-auth.ts";
import type { RouteDocs } from "./route-docs.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    /** Who may call. Required on every route. */
    auth?: RouteAuth;
    /** What a call does, for the audit log: `auth.login`. Required on every mutating route. */
    action?: string;
    /** What the OpenAPI document says of it. Required on every route of our own. */
    docs?: RouteDocs;
    /** How a refusal looks to a browser that shows a page; without it a refusal is JSON. */
    failurePage?: FailurePage;
  }

  interface FastifyRequest {
    /** What travels with the call to other services. */
    call: CallContext;
    /** The call as a step of its trace. */
    span: CallSpan;
    /** Who calls; null on public routes. */
    principal: Principal | null;
    /** The verified token's text; empty on public routes. */
    accessToken: string;
    /** Who turned out to act, where a public call proves it (login, refresh). */
    provenActor: AuditActor | null;
    /** What was promised to the audit log; null if nothing was. */
    audited: { call: AuditedCall; startedMs: number } | null;
    /** Our code of the failure that was answered; null for successes and an upstream's own failures. */
    errorCode: ErrorCode | null;
    /** The call failed in a way that leaves open whether it had an effect. */
    isEffectUncertain: boolean;
    startedMs: number;
  }
}

/** @param message what may be said of the error to a client. @returns HTML. */
export type FailurePage = (error: DomainError, message: string, request: FastifyRequest) => string;

/** Types a route's body, query and parameters by its zod schemas. */
export interface ZodTypeProvider extends FastifyTypeProvider {
  validator: this["schema"] extends z.ZodType ? z.output<this["schema"]> : unknown;
}

export type GatewayApp = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  Logger,
  ZodTypeProvider
>;
