import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { FastifyInstance, FastifyRequest, FastifyTypeProvider, RawServerDefault } from "fastify";
import type { z } from "zod";
import type { AuditActor, AuditedCall } from "../../audit-client/audit-entry.ts";
import type { CallContext } from "../../service-kit/call-context.ts";
import type { DomainError, ErrorCode } from "../../service-kit/errors.ts";
import type { Logger } from "../../service-kit/logger.ts";
import type { CallSpan } from "../../service-kit/tracing.ts";
import type { Principal } from "../../token-client/principal.ts";
import type { ProxyTarget } from "../routing/proxy-table.ts";
import type { RouteDocs } from "../routing/route-docs.ts";
import type { RequestPolicy, RoutePolicy } from "../routing/route-policy.ts";

declare module "fastify" {
  /** A route of our own must have `auth`, `limitClass` and `docs`. */
  interface FastifyContextConfig extends Partial<RoutePolicy> {
    /** What the OpenAPI document says of it. */
    docs?: RouteDocs;
    /** How a refusal looks to a browser that shows a page; without it a refusal is JSON. */
    failurePage?: FailurePage;
    /** The route that takes what the routes file forwards; policies are in the file. */
    isProxy?: true;
  }

  interface FastifyRequest {
    /** What travels with the call to other services. */
    call: CallContext;
    /** The call as a step of its trace. */
    span: CallSpan;
    /** Where the routes file sends it; null for our own paths and for unknown ones. */
    target: ProxyTarget | null;
    /** What is asked of it; null if no route takes it. */
    policy: RequestPolicy | null;
    /** Its way to an upstream and back; null before and without. */
    exchange: Exchange | null;
    /** Its connection, if it is to become a WebSocket. */
    upgrade: Upgrade | null;
    /** Releases its place among the calls in flight of its network. Null if it has none. */
    leave: (() => void) | null;
    /** Who calls; null on public routes. */
    principal: Principal | null;
    /** The verified token's text; empty on public routes. */
    accessToken: string;
    /** What is wrong with the access token, where something else may prove who calls; null else. */
    tokenFailure: Error | null;
    /** Who was refused by the route's policy or for a token that is over; null while nobody is known to be. */
    refusedActor: AuditActor | null;
    /** Who turned out to act, where a public call proves it (login, refresh). */
    provenActor: AuditActor | null;
    /** The device token that this login was issued, or null. */
    givenDeviceToken: string | null;
    /** What was promised to the audit log, and whether it was kept; null if nothing was. */
    audited: { call: AuditedCall; startedMs: number; isTold: boolean } | null;
    /** What its answer says to scripts of another origin: names and values in turn. */
    corsHeaders: readonly string[];
    /** Our code of the failure that was answered; null for successes and an upstream's own failures. */
    errorCode: ErrorCode | null;
    /** The call failed in a way that leaves open whether it had an effect. */
    isEffectUncertain: boolean;
    startedMs: number;
    /** The answer is known. */
    isDecided: boolean;
    /** The connection is done with it. */
    isClosed: boolean;
  }
}

/** A request on its way to an upstream and back. */
export interface Exchange {
  /** Longest pause within a body. */
  readonly idleTimeoutMs: number;
  /** A request's body must come, and its answer be taken, at this rate on average. */
  readonly minBytesPerS: number;
  /** The client has gone. */
  abandon(): void;
  /** Ends it with an error, or breaks off the answer that has begun. */
  fail(error: DomainError): void;
}

/** A connection that asks to become a WebSocket. */
export interface Upgrade {
  socket: Socket;
  /** What came after the request's headers. */
  head: Buffer;
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
