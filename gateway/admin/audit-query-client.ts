import type { AuditActor, AuditedCall, AuditOutcome } from "../../audit-client/audit-entry.ts";
import {
  AuditQueryServiceClient,
  type GetEntryResponse,
} from "../../proto/gen/gatehouse/audit/v1/audit_query_service.ts";
import {
  EntryKind,
  type Entry as EntryMessage,
  Outcome as OutcomeMessage,
} from "../../proto/gen/gatehouse/audit/v1/entry.ts";
import type { CallContext } from "../../service-kit/call-context.ts";
import { callUnary, createRpcClient } from "../../service-kit/rpc-client.ts";
import type { ProcessCertificate } from "../../service-kit/rpc-tls.ts";

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
  /** Place in the log, from 1; null while it has none yet. */
  sequence: number | null;
  /** By the log's clock. */
  receivedAt: Date;
  /** The service that sent it. */
  producer: string;
}

/** An entry with what proves it. Hashes are base64. */
export interface ProvenAuditEntry {
  entry: StoredAuditEntry;
  /** Null while no checkpoint covers the entry: about a second. */
  proof: {
    /** Canonical JSON whose hash is the leaf's. */
    leafData: string;
    leafHash: string;
    /** In the tree of the checkpoint's size, from the leaf up (RFC 9162 section 2.1.3). */
    inclusionProof: readonly string[];
    /** Signed note. */
    checkpoint: string;
  } | null;
}

/** That a leaf is in a tree. */
export interface InclusionProof {
  leafHash: string;
  proof: readonly string[];
}

/** A signed checkpoint, and the key to verify it with. */
export interface AuditCheckpoint {
  checkpoint: string;
  verifierKey: string;
}

export interface AuditPage {
  entries: readonly StoredAuditEntry[];
  /** Null at the end. */
  nextCursor: string | null;
}

export interface AuditQueryClient {
  /** Newest first. @throws {DomainError} `validation_failed` for a cursor that is not ours. */
  search(filter: AuditFilter, context: CallContext): Promise<AuditPage>;
  /** One entry by its id. @throws {DomainError} `not_found`. */
  get(id: string, context: CallContext): Promise<ProvenAuditEntry>;
  /** The latest. @throws {DomainError} `not_found` while there is none. */
  checkpoint(context: CallContext): Promise<AuditCheckpoint>;
  /** Base64, from the leaf up. @throws {DomainError} `validation_failed`, `not_found`. */
  proveInclusion(sequence: number, treeSize: number, context: CallContext): Promise<InclusionProof>;
  /** Base64. @throws {DomainError} `validation_failed`, `not_found`. */
  proveConsistency(firstSize: number, secondSize: number, context: CallContext): Promise<readonly string[]>;
  close(): void;
}

const METHODS = ["SearchEntries", "GetEntry", "GetCheckpoint", "ProveInclusion", "ProveConsistency"];

/** @param address `host:port` of audit-service. */
export function createAuditQueryClient(address: string, certificate: ProcessCertificate): AuditQueryClient {
  const client = createRpcClient(AuditQueryServiceClient, {
    address,
    service: "audit-service",
    certificate,
    idempotentMethods: METHODS.map((method) => `gatehouse.audit.v1.AuditQueryService/${method}`),
  });
  return {
    async search(filter, context) {
      const response = await callUnary(client, client.searchEntries, toRequest(filter), context);
      return { entries: response.entries.map(toEntry), nextCursor: response.nextCursor || null };
    },
    async get(id, context) {
      return toProvenEntry(await callUnary(client, client.getEntry, { id, sequence: 0 }, context));
    },
    checkpoint: (context) => callUnary(client, client.getCheckpoint, { atLeastSize: 0 }, context),
    async proveInclusion(sequence, treeSize, context) {
      const request = { sequence, treeSize };
      const { proof, leafHash } = await callUnary(client, client.proveInclusion, request, context);
      return { leafHash: base64(leafHash), proof: proof.map(base64) };
    },
    async proveConsistency(firstSize, secondSize, context) {
      const request = { firstSize, secondSize };
      return (await callUnary(client, client.proveConsistency, request, context)).proof.map(base64);
    },
    close: () => client.close(),
  };
}

function toProvenEntry(response: GetEntryResponse): ProvenAuditEntry {
  const { entry, leafData, leafHash, inclusionProof, checkpoint } = response;
  if (entry === undefined) throw new Error("audit-service sent no entry");
  if (checkpoint === "") return { entry: toEntry(entry), proof: null };
  const hashes = { leafHash: base64(leafHash), inclusionProof: inclusionProof.map(base64) };
  return {
    entry: toEntry(entry),
    proof: { leafData: Buffer.from(leafData).toString("utf8"), ...hashes, checkpoint },
  };
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("base64");
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
  const { requestId, traceId, sequence, producer } = message;
  const actor = toActor(message);
  const receivedAt = message.receivedAt ?? occurredAt; // a version before sends none
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
    sequence: sequence === 0 ? null : sequence,
    receivedAt,
    producer,
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
