import type { FastifyReply, FastifyRequest } from "fastify";
import { v7 as uuidv7 } from "uuid";
import type { AuditActor, AuditedCall, AuditOutcome, AuditRecorder } from "../../audit-client/audit-entry.ts";
import { traceIdOf } from "../../service-kit/call-context.ts";
import { canonicalEmail } from "../../service-kit/canonical-email.ts";
import type { ErrorCode } from "../../service-kit/errors.ts";
import type { Logger } from "../../service-kit/logger.ts";
import { pathBelow } from "../routing/proxy-table.ts";
import { isMutating } from "../routing/route-policy.ts";
import { clientIp } from "./caller.ts";
import { maskSecrets } from "./mask-secrets.ts";
import { userAgent } from "./user-agent.ts";

const MAX_RESOURCE_CHARACTERS = 200;
const MAX_EMAIL_CHARACTERS = 254;
/** The effect has already happened, so a response waits only this long. */
const OUTCOME_WAIT_MS = 500;

/** The call may have had its effect, although its answer was lost. */
const UNCERTAIN: ReadonlySet<ErrorCode> = new Set(["service_unavailable", "internal_error"]);

/** A mutating call continues only after its intent is durable. The hook throws `audit_unavailable`. */
export function createRecordIntent(recorder: AuditRecorder) {
  return async (request: FastifyRequest): Promise<void> => {
    const action = request.policy?.action;
    if (action === undefined || !isAudited(request)) return;
    const call = auditedCall(request, action);
    const startedMs = performance.now();
    await recorder.record({ ...call, kind: "intent" }, request.call.deadlineMs);
    request.audited = { call, startedMs, isTold: false };
  };
}

/** A WebSocket is audited too, because it may carry changes. */
export function isAudited(request: FastifyRequest): boolean {
  return (request.policy?.hasEffect ?? isMutating(request.method)) || request.upgrade !== null;
}

export type RecordOutcome = (request: FastifyRequest, reply: FastifyReply) => Promise<void>;

/** A response completes only after its outcome is durable, so a client finds its call in the log even after a crash. */
export function createRecordOutcome(recorder: AuditRecorder, logger: Logger): RecordOutcome {
  return async (request, reply) => {
    const outcome = takeOutcome(request, reply);
    if (outcome === undefined) return;
    try {
      await recorder.record(outcome, Date.now() + OUTCOME_WAIT_MS);
    } catch (error) {
      logger.error(
        { err: error, requestId: request.id },
        "audit outcome lost, or durable only after its answer",
      );
    }
  };
}

/** Queues the outcome of a call without a complete response. */
export function createEnqueueOutcome(recorder: AuditRecorder, logger: Logger) {
  return (request: FastifyRequest, reply: FastifyReply): void => {
    const outcome = takeOutcome(request, reply);
    if (outcome === undefined) return;
    try {
      recorder.enqueue(outcome);
    } catch (error) {
      // The stored intent is closed as unknown later.
      logger.error({ err: error, requestId: request.id }, "audit outcome lost");
    }
  };
}

function takeOutcome(request: FastifyRequest, reply: FastifyReply): AuditOutcome | undefined {
  if (request.audited === null || request.audited.isTold) return undefined;
  const { call, startedMs } = request.audited;
  request.audited.isTold = true;
  return {
    ...call,
    actor: { ...call.actor, ...request.provenActor },
    kind: "outcome",
    outcome: outcomeOf(request, reply.statusCode),
    ...(request.errorCode !== null && { errorCode: request.errorCode }),
    httpStatus: reply.statusCode,
    latencyUs: Math.round((performance.now() - startedMs) * 1_000),
  };
}

function outcomeOf(request: FastifyRequest, status: number): AuditOutcome["outcome"] {
  if (request.isEffectUncertain) return "unknown";
  if (request.errorCode !== null && UNCERTAIN.has(request.errorCode)) return "unknown";
  // A redirect may carry an error code.
  return status < 400 && request.errorCode === null ? "success" : "failure";
}

export function auditedCall(
  request: FastifyRequest,
  action: string,
  actor: AuditActor = actorOf(request),
): AuditedCall {
  return {
    callId: uuidv7(),
    actor,
    clientIp: clientIp(request),
    userAgent: maskSecrets(userAgent(request)),
    method: request.method,
    route: request.policy?.pattern ?? "",
    resource: resourceOf(request),
    action,
    requestId: request.call.requestId,
    traceId: traceIdOf(request.call),
  };
}

/** The claimed e-mail address stands for an anonymous caller. */
function actorOf({ principal, provenActor, body }: FastifyRequest): AuditActor {
  if (provenActor !== null) return provenActor;
  if (principal !== null) {
    return { userId: principal.userId, role: principal.role, sessionId: principal.sessionId };
  }
  const { email } = (body ?? {}) as { email?: unknown };
  if (typeof email !== "string") return {};
  // The canonical form is needed to erase an account's entries.
  return { claimedEmail: (canonicalEmail(email) ?? email).slice(0, MAX_EMAIL_CHARACTERS) };
}

function resourceOf({ params, target, raw }: FastifyRequest): string {
  const { id, provider } = (params ?? {}) as { id?: string; provider?: string };
  const resource = target === null ? (id ?? provider ?? "") : pathBelow(target, raw.url ?? "");
  return maskSecrets(resource).slice(0, MAX_RESOURCE_CHARACTERS);
}
