import type { AuditActor, AuditedCall, AuditOutcome } from "../audit-client/audit-entry.ts";
import { AuditQueryServiceClient } from "../proto/gen/gatehouse/audit/v1/audit_query_service.ts";
import {
  EntryKind,
  type Entry as EntryMessage,
  Outcome as OutcomeMessage,
} from "../proto/gen/gatehouse/audit/v1/entry.ts";
import type { CallContext } from "../service-kit/call-context.ts";
import { callUnary, createRpcClient } from "../service-kit/rpc-client.ts";
import type { ProcessCertificate } from "../service-kit/rpc-tls.ts";

type Outcome = AuditOutcome["outcome"];

/** Which entries; what is absent matches everything. */
export interface AuditFilter {
  actor?: string | undefined;
  action?: string | undefined;
  resource?: string | undefined;
  outcome?: Outcome | undefined;
  requestId?: string | undefined;
  /** Inclusive. */
  from?: Date | undefined;
  /** Exclusive. */
  to?: Date | undefined;
  cursor?: string | undefined;
  limit: number;
}

/** An entry as an auditor reads it. What belongs to outcomes only is absent from intents and events. */
export interface StoredAuditEntry
  extends AuditedCall,
    Partial<Omit<AuditOutcome, keyof AuditedCall | "kind">> {
  id: string;
  kind: "intent" | "outcome" | "event";
  occurredAt: Date;
  /** Why, of an event. */
  reason?: string;
}

export interface AuditPage {
  entries: readonly StoredAuditEntry[];
  /** Null at the end. */
  nextCursor: string | null;
}

export interface AuditQueryClient {
  /** Newest first. @throws {DomainError} `validation_failed` for a cursor that is not ours. */
  search(filter: AuditFilter, context: CallContext): Promise<AuditPage>;
  close(): void;
}

/** @param address `host:port` of audit-service. */
export function createAuditQueryClient(address: string, certificate: ProcessCertificate): AuditQueryClient {
  const client = createRpcClient(AuditQueryServiceClient, {
    address,
    service: "audit-service",
    certificate,
    idempotentMethods: ["gatehouse.audit.v1.AuditQueryService/SearchEntries"],
  });
  return {
    async search(filter, context) {
      const response = await callUnary(client, client.searchEntries, toRequest(filter), context);
      return { entries: response.entries.map(toEntry), nextCursor: response.nextCursor || null };
    },
    close: () => client.close(),
  };
}

const OUTCOMES: Record<Outcome, OutcomeMessage> = {
  success: OutcomeMessage.SUCCESS,
  failure: OutcomeMessage.FAILURE,
  unknown: OutcomeMessage.UNKNOWN,
};
const OUTCOME_NAMES = new Map(Object.entries(OUTCOMES).map(([name, value]) => [value, name as Outcome]));

function toRequest({ actor, outcome, from, to, ...filter }: AuditFilter) {
  return {
    actorUserId: actor ?? "",
    action: filter.action ?? "",
    resource: filter.resource ?? "",
    outcome: outcome === undefined ? OutcomeMessage.UNSPECIFIED : OUTCOMES[outcome],
    requestId: filter.requestId ?? "",
    from,
    to,
    cursor: filter.cursor ?? "",
    limit: filter.limit,
  };
}

function toEntry(message: EntryMessage): StoredAuditEntry {
  const { id, callId, occurredAt, clientIp, userAgent, method, route, resource, action } = message;
  if (occurredAt === undefined) throw new Error("audit-service sent an entry without time");
  const { requestId, traceId } = message;
  const actor = toActor(message);
  const call = {
    callId,
    occurredAt,
    actor,
    clientIp,
    userAgent,
    method,
    route,
    resource,
    action,
    requestId,
    traceId,
  };
  if (message.kind === EntryKind.INTENT) return { id, kind: "intent", ...call };
  const result = {
    // A later version's outcome is not ours to interpret.
    outcome: OUTCOME_NAMES.get(message.outcome) ?? ("unknown" as const),
    ...(message.errorCode !== "" && { errorCode: message.errorCode }),
  };
  const { httpStatus, latencyUs, reason } = message;
  if (message.kind === EntryKind.EVENT)
    return { id, kind: "event", ...call, ...result, ...(reason !== "" && { reason }) };
  return { id, kind: "outcome", ...call, ...result, httpStatus, latencyUs };
}

function toActor({ actor }: EntryMessage): AuditActor {
  const { userId, role, sessionId, claimedEmail } = actor ?? {};
  return {
    ...(userId && { userId }),
    ...(role && { role }),
    ...(sessionId && { sessionId }),
    ...(claimedEmail && { claimedEmail }),
  };
}
