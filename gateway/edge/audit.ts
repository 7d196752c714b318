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
/** How long an answer may wait for its outcome. The effect has happened: later the answer goes out all the same. */
const OUTCOME_WAIT_MS = 500;

/** After these the effect may have happened all the same: the answer was lost, not necessarily the work. */
const UNCERTAIN: ReadonlySet<ErrorCode> = new Set(["service_unavailable", "internal_error"]);

/**
 * A `preHandler` hook: a call that changes something goes on only once its intent is durable.
 *
 * It throws `audit_unavailable` when that cannot be had within the call's budget.
 */
export function createRecordIntent(recorder: AuditRecorder) {
  return async (request: FastifyRequest): Promise<void> => {
    const action = request.policy?.action;
    if (action === undefined || !isAudited(request)) return;
    const call = auditedCall(request, action);
    const startedMs = performance.now();
    await recorder.record({ ...call, kind: "intent" }, request.call.deadlineMs);
    // From here on an outcome is owed.
    request.audited = { call, startedMs, isTold: false };
  };
}

/** Whether a call may change something: by its method or its route, or by what goes over the WebSocket that it opens. */
export function isAudited(request: FastifyRequest): boolean {
  return (request.policy?.hasEffect ?? isMutating(request.method)) || request.upgrade !== null;
}

/** Makes an outcome durable; never rejects. */
export type RecordOutcome = (request: FastifyRequest, reply: FastifyReply) => Promise<void>;

/**
 * The answer of a call whose intent was recorded is complete only once its outcome is durable: a client that has its answer can
 * find it in the log, even if this process dies at once.
 */
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

/** For what ended without a whole answer: the outcome goes into the queue. */
export function createEnqueueOutcome(recorder: AuditRecorder, logger: Logger) {
  return (request: FastifyRequest, reply: FastifyReply): void => {
    const outcome = takeOutcome(request, reply);
    if (outcome === undefined) return;
    try {
      recorder.enqueue(outcome);
    } catch (error) {
      // The intent is stored; without an outcome it will be closed as unknown.
      logger.error({ err: error, requestId: request.id }, "audit outcome lost");
    }
  };
}

/** The outcome of a call whose intent was recorded, the first time it is asked for; undefined for every other call. */
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
  // A redirect may carry a failure.
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

/** From the verified token, or the credentials of a service; for an anonymous call, the e-mail address it claims. */
function actorOf({ principal, provenActor, body }: FastifyRequest): AuditActor {
  if (provenActor !== null) return provenActor;
  if (principal !== null) {
    return { userId: principal.userId, role: principal.role, sessionId: principal.sessionId };
  }
  const { email } = (body ?? {}) as { email?: unknown };
  if (typeof email !== "string") return {};
  // In its one spelling, or an erasure of the account would not find it.
  return { claimedEmail: (canonicalEmail(email) ?? email).slice(0, MAX_EMAIL_CHARACTERS) };
}

/** The id or name in the path: of our own routes the parameter, of proxied ones what follows the prefix. */
function resourceOf({ params, target, raw }: FastifyRequest): string {
  const { id, provider } = (params ?? {}) as { id?: string; provider?: string };
  const resource = target === null ? (id ?? provider ?? "") : pathBelow(target, raw.url ?? "");
  return maskSecrets(resource).slice(0, MAX_RESOURCE_CHARACTERS);
}
