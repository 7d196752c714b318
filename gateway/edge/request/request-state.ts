import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { FastifyInstance, FastifyRequest, FastifyTypeProvider, RawServerDefault } from "fastify";
import type { z } from "zod";
import type { AuditActor, AuditedCall, AuditRecorder } from "#audit-client/stream/audit-entry.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { CallSpan } from "#kit/telemetry/tracing.ts";
import type { DomainError, ErrorCode } from "#kit/values/errors.ts";
import type { Principal } from "#token-client/principal.ts";
import type { Place } from "../../limits/share-counts.ts";
import type { ProxyTarget } from "../../routing/proxy-table.ts";
import type { RouteDocs } from "../../routing/route-docs.ts";
import type { RequestPolicy, RoutePolicy } from "../../routing/route-policy.ts";
import type { DpopProof } from "../proofs/dpop-proof.ts";

declare module "fastify" {
  /** Own routes must have `auth`, `limitClass` and `docs`. */
  interface FastifyContextConfig extends Partial<RoutePolicy> {
    docs?: RouteDocs;
    /** HTML for browsers. */
    failurePage?: FailurePage;
    isProxy?: true;
  }

  interface FastifyRequest {
    /** Undefined in the error handler if the router itself refused the request. */
    state: ReadonlyState;
  }
}

type ReadonlyState = Readonly<Omit<RequestState, "call"> & { call: Readonly<CallContext> }>;

/** `closed`: the client left before the response was decided. */
export type Phase = "open" | "decided" | "closed" | "completed";

interface Access {
  readonly principal: Principal;
  readonly accessToken: string;
}

interface TokenRefusal {
  readonly error: Error;
  /** Null if unknown. */
  readonly actor: AuditActor | null;
}

/** For example by a login or refresh. */
interface Proof {
  readonly actor: AuditActor;
  /** Issued by a login. */
  readonly deviceToken: string | null;
}

/** The user's approval that lets this call through, as its upstream and the audit log see it. */
export interface UsedApproval {
  readonly id: string;
  /** `totp`, `recovery_code`, `passkey`. */
  readonly method: string;
  /** The same call has passed before, so that the upstream may have carried it out. */
  readonly isRepeated: boolean;
  /** SHA-256 in hexadecimal. */
  readonly digest: string;
}

export type AuditState =
  | { readonly kind: "none" }
  | {
      readonly kind: "intended";
      readonly call: AuditedCall;
      /** The outcome is due in the log of the intent. */
      readonly recorder: AuditRecorder;
      readonly startedMs: number;
    }
  | { readonly kind: "recorded" };

const NOT_AUDITED: AuditState = { kind: "none" };

type Beginning = Pick<
  RequestState,
  "startedMs" | "call" | "span" | "target" | "policy" | "upgrade" | "corsHeaders"
>;

/** One shape keeps the hot path fast. */
export class RequestState {
  /** Milliseconds of `performance.now()`. */
  readonly startedMs: number;
  readonly call: CallContext;
  readonly span: CallSpan;
  /** Null for own and unknown paths. */
  readonly target: ProxyTarget | null;
  /** Null for unknown routes. */
  readonly policy: RequestPolicy | null;
  readonly upgrade: Upgrade | null;
  /** Names and values in turn. */
  readonly corsHeaders: readonly string[];
  phase: Phase = "open";
  exchange: Exchange | null = null;
  /** Ends the concurrent call. */
  leave: (() => void) | null = null;
  /** Lets the caller's next call begin. */
  endTurn: (() => void) | null = null;
  /** No recent success of the network or device, on a route where strangers are limited. */
  isStranger = false;
  /** A stranger's, while a login is under way. */
  place: Place | null = null;
  /** Null on public routes. */
  access: Access | null = null;
  /** A token in the body may still prove the caller. */
  refusal: TokenRefusal | null = null;
  proof: Proof | null = null;
  /** Of a call whose limits have not been asked yet. */
  unusedProof: DpopProof | null = null;
  /** The client needs it for its next DPoP proof. */
  dpopNonce: string | null = null;
  /** Null if the call needs none. */
  approval: UsedApproval | null = null;
  audit: AuditState = NOT_AUDITED;
  /** Null for an upstream's own errors. */
  errorCode: ErrorCode | null = null;
  /** The failed call may have had an effect. */
  isEffectUncertain = false;

  constructor(beginning: Beginning) {
    this.startedMs = beginning.startedMs;
    this.call = beginning.call;
    this.span = beginning.span;
    this.target = beginning.target;
    this.policy = beginning.policy;
    this.upgrade = beginning.upgrade;
    this.corsHeaders = beginning.corsHeaders;
  }
}

/** Only `gateway/edge` uses it. */
export function writableState(request: FastifyRequest): RequestState {
  return request.state;
}

export function noteApproval(request: FastifyRequest, approval: UsedApproval): void {
  writableState(request).approval = approval;
}

export function noteExchange(request: FastifyRequest, exchange: Exchange): void {
  writableState(request).exchange = exchange;
}

export function noteUncertainEffect(request: FastifyRequest): void {
  writableState(request).isEffectUncertain = true;
}

export function noteBreakOff(request: FastifyRequest, { code }: DomainError): void {
  const state = writableState(request);
  state.isEffectUncertain = true;
  state.errorCode ??= code;
}

export interface Exchange {
  /** Longest pause within a body. */
  readonly idleTimeoutMs: number;
  /** Minimum average rate in both directions. */
  readonly minBytesPerS: number;
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
