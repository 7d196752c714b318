import type { FastifyReply, FastifyRequest } from "fastify";
import { type AuditAction, LOGIN_ACTIONS } from "#audit-client/stream/audit-actions.ts";
import type {
  AuditActor,
  AuditEventRecorder,
  AuditedCall,
  AuditOutcome,
  AuditRecorder,
} from "#audit-client/stream/audit-entry.ts";
import type { Reading } from "#audit-client/stream/record-reading.ts";
import { auditActorOf, traceIdOf } from "#kit/rpc/call-context.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import { canonicalEmail } from "#kit/values/canonical-email.ts";
import type { ErrorCode } from "#kit/values/errors.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import { pathBelow } from "../routing/proxy-table.ts";
import { isMutating } from "../routing/route-policy.ts";
import { maskSecrets } from "./mask-secrets.ts";
import { clientIp, userAgent } from "./request/caller.ts";
import { isClosed } from "./request/completion.ts";
import { type AuditState, type RequestState, writableState } from "./request/request-state.ts";

const MAX_RESOURCE_CHARACTERS = 200;
const MAX_EMAIL_CHARACTERS = 254;
/** The effect has already happened. */
const OUTCOME_WAIT_MS = 500;

/** A call of our own paths may have had its effect. Of a forwarded one it is known whether it was sent. */
const UNCERTAIN: ReadonlySet<ErrorCode> = new Set(["service_unavailable", "internal_error"]);

const RECORDED: AuditState = { kind: "recorded" };

export interface AuditTrail {
  /** Undefined if the call is not audited. Rejects with `audit_unavailable`. */
  recordIntent(request: FastifyRequest): Promise<void> | undefined;
  /**
   * Durable before the response completes: its client finds the call in the log. Queued if the client has left.
   * Idempotent, never rejects.
   */
  recordOutcome(request: FastifyRequest, reply: FastifyReply): Promise<void> | undefined;
}

export function createAuditTrail(nextRecorder: () => AuditRecorder, logger: Logger): AuditTrail {
  const recordIntent = async (request: FastifyRequest, action: string): Promise<void> => {
    const state = writableState(request);
    const call = auditedCall(request, action);
    const recorder = nextRecorder();
    const startedMs = performance.now();
    await recorder.record({ ...call, kind: "intent" }, state.call.deadlineMs);
    state.audit = { kind: "intended", call, recorder, startedMs };
  };
  const record = async ({ recorder, outcome }: DueOutcome): Promise<void> => {
    try {
      await recorder.record(outcome, Date.now() + OUTCOME_WAIT_MS);
    } catch (err) {
      const { requestId } = outcome;
      logger.error({ err, requestId }, "audit outcome lost, or durable only after its answer");
    }
  };
  const enqueue = ({ recorder, outcome }: DueOutcome): undefined => {
    try {
      recorder.enqueue(outcome);
    } catch (err) {
      // The stored intent is closed as unknown later.
      logger.error({ err, requestId: outcome.requestId }, "audit outcome lost");
    }
    return undefined;
  };
  return {
    recordIntent(request) {
      const { policy, upgrade } = request.state;
      // A WebSocket may carry changes.
      const isAudited = (policy?.isAudited ?? isMutating(request.method)) || upgrade !== null;
      return isAudited && policy?.action !== undefined ? recordIntent(request, policy.action) : undefined;
    },
    recordOutcome(request, reply) {
      const due = takeOutcome(request, reply);
      if (due === undefined) return undefined;
      return isClosed(request) ? enqueue(due) : record(due);
    },
  };
}

interface DueOutcome {
  recorder: AuditRecorder;
  outcome: AuditOutcome;
}

export function isOutcomeDue({ state }: FastifyRequest): boolean {
  return state.audit.kind === "intended";
}

function takeOutcome(request: FastifyRequest, { statusCode }: FastifyReply): DueOutcome | undefined {
  const state = writableState(request);
  const { audit, errorCode, proof, approval } = state;
  if (audit.kind !== "intended") return undefined;
  state.audit = RECORDED;
  const actor = actorProven(audit.call.actor, proof?.actor);
  const outcome: AuditOutcome = {
    ...audit.call,
    actor,
    resource: beginsOrEndsSession(audit.call, actor) ? actor.userId : audit.call.resource,
    kind: "outcome",
    outcome: outcomeOf(state, statusCode),
    ...(errorCode !== null && { errorCode }),
    ...(approval !== null && { reason: `approval ${approval.id} ${approval.method} ${approval.digest}` }),
    httpStatus: statusCode,
    latencyUs: Math.round((performance.now() - audit.startedMs) * 1_000),
  };
  return { recorder: audit.recorder, outcome };
}

/** Who the call proved to be. A token in the body may be another person's than the access token. */
function actorProven(known: AuditActor, proven: AuditActor = {}): AuditActor {
  const isOther = known.userId !== undefined && proven.userId !== undefined && known.userId !== proven.userId;
  return isOther ? proven : { ...known, ...proven };
}

const SESSION_ENDS: ReadonlySet<string> = new Set<AuditAction>(["auth.logout", "auth.session_end"]);

/** The account is then the resource, so that one search finds what happened to an account. The intent has the session's id. */
function beginsOrEndsSession(
  { action }: AuditedCall,
  actor: AuditActor,
): actor is AuditActor & { userId: string } {
  const isOne = SESSION_ENDS.has(action) || LOGIN_ACTIONS.some((name) => name === action);
  return isOne && actor.userId !== undefined && actor.sessionId !== undefined;
}

function outcomeOf(
  { isEffectUncertain, errorCode, target }: Readonly<RequestState>,
  status: number,
): AuditOutcome["outcome"] {
  if (isEffectUncertain) return "unknown";
  if (target === null && errorCode !== null && UNCERTAIN.has(errorCode)) return "unknown";
  // A redirect may carry an error code.
  return status < 400 && errorCode === null ? "success" : "failure";
}

export function auditedCall(
  request: FastifyRequest,
  action: string,
  actor: AuditActor = actorOf(request),
): AuditedCall {
  const { call, policy } = request.state;
  return {
    callId: uuidv7(),
    actor,
    clientIp: clientIp(request),
    userAgent: maskSecrets(userAgent(request)),
    method: request.method,
    route: policy?.pattern ?? "",
    resource: resourceOf(request),
    action,
    requestId: call.requestId,
    traceId: traceIdOf(call),
  };
}

function actorOf({ state: { call, proof }, body }: FastifyRequest): AuditActor {
  const known = proof?.actor ?? (call.actor && auditActorOf(call.actor));
  if (known !== undefined) return known;
  const { email } = (body ?? {}) as { email?: unknown };
  if (typeof email !== "string") return {};
  // The canonical form is needed to erase an account's entries.
  return { claimedEmail: (canonicalEmail(email) ?? email).slice(0, MAX_EMAIL_CHARACTERS) };
}

function resourceOf({ params, state: { target }, raw }: FastifyRequest): string {
  const { id, provider } = (params ?? {}) as { id?: string; provider?: string };
  const resource = target === null ? (id ?? provider ?? "") : pathBelow(target, raw.url ?? "");
  return maskSecrets(resource).slice(0, MAX_RESOURCE_CHARACTERS);
}

/** Rejects with `audit_unavailable`. */
export type NoteReading = (request: FastifyRequest, reading: Reading) => Promise<void>;

export function createNoteReading(recorder: AuditEventRecorder, now: () => Date): NoteReading {
  return async (request, { action, resource, filter, address }) => {
    const call = auditedCall(request, action);
    const { callId, actor, clientIp, userAgent, requestId, traceId } = call;
    await recorder.recordEvent(
      {
        kind: "event",
        id: callId,
        occurredAt: now(),
        actor: { ...actor, ...(address !== undefined && { claimedEmail: address }) },
        action,
        resource: resource ?? call.resource,
        clientIp,
        userAgent,
        ...(filter !== undefined && { reason: maskSecrets(filter) }),
        requestId,
        traceId,
        outcome: "success",
      },
      request.state.call.deadlineMs,
    );
  };
}
