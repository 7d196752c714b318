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
  /** Own routes must have `auth`, `limitClass` and `docs`. */
  interface FastifyContextConfig extends Partial<RoutePolicy> {
    docs?: RouteDocs;
    /** HTML for browsers. Without it a refusal is JSON. */
    failurePage?: FailurePage;
    isProxy?: true;
  }

  interface FastifyRequest {
    call: CallContext;
    span: CallSpan;
    /** Null for own and unknown paths. */
    target: ProxyTarget | null;
    /** Null for unknown routes. */
    policy: RequestPolicy | null;
    exchange: Exchange | null;
    upgrade: Upgrade | null;
    leave: (() => void) | null;
    /** Null on public routes. */
    principal: Principal | null;
    /** Verified. Empty on public routes. */
    accessToken: string;
    /** The failure of the access token, if a refresh token may still prove the caller. */
    tokenFailure: Error | null;
    /** A known caller that was refused. */
    refusedActor: AuditActor | null;
    /** The user identified by a public call such as a login or refresh. */
    provenActor: AuditActor | null;
    givenDeviceToken: string | null;
    /** Null without a recorded intent. */
    audited: { call: AuditedCall; startedMs: number; isTold: boolean } | null;
    /** Names and values in turn. */
    corsHeaders: readonly string[];
    /** Null for successes and an upstream's own errors. */
    errorCode: ErrorCode | null;
    /** The failed call may have had an effect. */
    isEffectUncertain: boolean;
    startedMs: number;
    /** The response is known. */
    isDecided: boolean;
    /** The connection no longer serves the request. */
    isClosed: boolean;
  }
}

export interface Exchange {
  /** Longest pause within a body. */
  readonly idleTimeoutMs: number;
  /** Minimum average rate of sending the request and reading the response. */
  readonly minBytesPerS: number;
  /** Called when the client has gone. */
  abandon(): void;
  /** Answers with the error, or aborts a started response. */
  fail(error: DomainError): void;
}

export interface Upgrade {
  socket: Socket;
  /** Data received after the headers. */
  head: Buffer;
}

/** @param message safe for clients. @returns HTML. */
export type FailurePage = (error: DomainError, message: string, request: FastifyRequest) => string;

interface ZodTypeProvider extends FastifyTypeProvider {
  validator: this["schema"] extends z.ZodType ? z.output<this["schema"]> : unknown;
}

export type GatewayApp = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  Logger,
  ZodTypeProvider
>;
