import { type ExportLine, type LoggedEntry, toLoggedEntry } from "#audit-client/stream/export-line.ts";
import { exportedLines } from "#audit-client/stream/exported-lines.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { callUnary, createRpcClient } from "#kit/rpc/rpc-client.ts";
import type { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import { DomainError } from "#kit/values/errors.ts";
import { AuditQueryServiceClient } from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { type Entry, EntryKind, Outcome } from "#proto/gatehouse/audit/v1/entry.ts";
import type { StreamEntry } from "./event.ts";
import type { Followed, Places } from "./event-source.ts";

const CALL_TIMEOUT_MS = 3_000;

/** All that the audit log has of an entry. `log` and `sequence` are its place, and no two entries have one. */
export interface WholeEntry extends LoggedEntry {
  log: number;
  actor: LoggedEntry["actor"] & { claimedEmail: string };
}

/** 0 stands for the first entry that is kept, and for the last one with a checkpoint. */
export interface LogSpan {
  log: number;
  first: number;
  last: number;
}

const KINDS: Record<EntryKind, StreamEntry["kind"]> = {
  [EntryKind.UNSPECIFIED]: "unspecified",
  [EntryKind.INTENT]: "intent",
  [EntryKind.OUTCOME]: "outcome",
  [EntryKind.EVENT]: "event",
};

const OUTCOMES: Record<Outcome, string> = {
  [Outcome.UNSPECIFIED]: "unknown",
  [Outcome.SUCCESS]: "success",
  [Outcome.FAILURE]: "failure",
  [Outcome.UNKNOWN]: "unknown",
};

export function createAuditLogClient(address: string, certificate: ProcessCertificate) {
  const client = createRpcClient(AuditQueryServiceClient, {
    address,
    service: "audit-service",
    certificate,
    idempotentMethods: ["gatehouse.audit.v1.AuditQueryService/FollowEntries"],
  });
  const followFrom = (after: { log: number; sequence: number }[], limit = 0) => {
    const filter = {
      actorUserId: "",
      action: "",
      resource: "",
      outcome: Outcome.UNSPECIFIED,
      withoutActions: [],
    };
    const context = newCallContext({ budgetMs: CALL_TIMEOUT_MS });
    return callUnary(client, client.followEntries, { ...filter, after, limit }, context);
  };
  return {
    /** @throws {DomainError} `service_unavailable`, or `validation_failed` for a place that there is not. */
    async follow(after: Places): Promise<Followed> {
      const places = Object.entries(after).map(([log, sequence]) => ({ log: Number(log), sequence }));
      const { entries, next, hasMore, away } = await followFrom(places);
      return {
        entries: entries.map(toStreamEntry),
        next: Object.fromEntries(next.map(({ log, sequence }) => [log, sequence])),
        hasMore,
        away,
      };
    },
    /** At most `limit` entries of one log, up to 500, whole and of every kind. @throws as `follow`. */
    async readLog(
      log: number,
      after: number,
      limit: number,
    ): Promise<{ entries: WholeEntry[]; next: number }> {
      const { entries, next, away } = await followFrom([{ log, sequence: after }], limit);
      if (away.includes(log)) throw new DomainError("service_unavailable", `Audit log ${log} is away`);
      return {
        entries: entries.filter((entry) => entry.log === log).map(toWholeEntry),
        next: next.find((place) => place.log === log)?.sequence ?? after,
      };
    },
    /** An export with all that a verifier needs, up to a checkpoint: docs/audit-log-format.md. @throws {DomainError} */
    exportLog: ({ log, first, last }: LogSpan, signal: AbortSignal): AsyncIterable<readonly ExportLine[]> =>
      exportedLines(client, { log, firstSequence: first, lastSequence: last }, signal),
    close: () => client.close(),
  };
}

function toStreamEntry(entry: Entry): StreamEntry {
  const { actor, occurredAt, receivedAt, kind, outcome, clientIp: _ip, userAgent: _agent, ...rest } = entry;
  if (occurredAt === undefined) throw new Error("audit-service sent an entry without time");
  const { userId = "", role = "", sessionId = "" } = actor ?? {};
  return {
    ...rest,
    kind: KINDS[kind] ?? "unspecified",
    outcome: OUTCOMES[outcome] ?? "unknown",
    actor: { userId, role, sessionId },
    occurredAt,
    receivedAt: receivedAt ?? occurredAt,
  };
}

function toWholeEntry(entry: Entry): WholeEntry {
  const logged = toLoggedEntry(entry);
  const claimedEmail = entry.actor?.claimedEmail ?? "";
  return { log: entry.log, ...logged, actor: { ...logged.actor, claimedEmail } };
}
