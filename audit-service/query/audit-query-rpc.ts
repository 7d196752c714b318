import {
  createFollowingRecorder,
  filterText,
  type RecordReading,
} from "#audit-client/stream/record-reading.ts";
import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import { DomainError } from "#kit/values/errors.ts";
import {
  type AuditQueryServiceServer,
  type ExportEntriesResponse,
  type GetEntryResponse,
  SummaryInterval,
} from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { fromWireOutcome, toWireEntry } from "../entries/entry-rpc.ts";
import type { ExportLine } from "./export-entries.ts";
import type { Followed, Following } from "./follow-entries.ts";
import type { EntryWithProof } from "./get-entry.ts";
import type { Span } from "./login-count-store.ts";
import type { EntryPage, EntrySearch } from "./search-entries.ts";
import type { LogSummary } from "./summarize-log.ts";

const READERS = ["gateway", "operator", "auditor"];

export const AUDIT_QUERY_CALLERS: Callers<AuditQueryServiceServer> = {
  searchEntries: READERS,
  followEntries: READERS,
  summarizeLogins: READERS,
  getEntry: READERS,
  getCheckpoint: READERS,
  proveInclusion: READERS,
  proveConsistency: READERS,
  exportEntries: READERS,
};

interface Deps {
  searchEntries: (search: EntrySearch) => Promise<EntryPage>;
  followEntries: (following: Following) => Promise<Followed>;
  summarizeLog: (span: Span) => Promise<LogSummary>;
  getEntry: (wanted: { id: string; sequence: number }) => Promise<EntryWithProof>;
  /** The latest checkpoint for 0, otherwise the earliest of at least this size. */
  findCheckpoint: (atLeastSize: number) => Promise<string | undefined>;
  proveInclusion: (sequence: number, treeSize: number) => Promise<{ proof: Buffer[]; leafHash: Buffer }>;
  proveConsistency: (firstSize: number, secondSize: number) => Promise<Buffer[]>;
  exportEntries: (wanted: { first: number; last: number }) => AsyncIterable<ExportLine>;
  verifierKey: string;
  recordReading: RecordReading;
  monotonicMs: () => number;
}

export function createAuditQueryRpc(deps: Deps): Implementation<AuditQueryServiceServer> {
  const recordFollowing = createFollowingRecorder(deps.monotonicMs);
  return {
    async searchEntries(request, context) {
      const outcome = fromWireOutcome(request.outcome);
      const { actorUserId: actor, action, resource, requestId: call, from, to, limit } = request;
      const without = request.withoutActions.join(" ");
      await deps.recordReading(context, {
        action: "audit.searched",
        filter: filterText({ actor, action, resource, request: call, outcome, without, from, to, limit }),
      });
      const page = await deps.searchEntries({ ...request, outcome });
      return { entries: page.entries.map(toWireEntry), nextCursor: page.nextCursor };
    },
    async followEntries(request, context) {
      const outcome = fromWireOutcome(request.outcome);
      const { actorUserId: actor, action, resource, afterSequence: after } = request;
      const { person } = context;
      // Without a place nothing is read.
      if (person !== undefined && after !== undefined) {
        const filter = { actor, action, resource, outcome, without: request.withoutActions.join(" ") };
        await recordFollowing({ person, ...filter }, after, () =>
          deps.recordReading(context, {
            action: "audit.followed",
            filter: filterText({ ...filter, after }),
          }),
        );
      }
      const followed = await deps.followEntries({ ...request, afterSequence: after, outcome });
      const { entries, nextAfter: nextAfterSequence, size } = followed;
      return { entries: entries.map(toWireEntry), nextAfterSequence, size };
    },
    async summarizeLogins(request, context) {
      const { from = new Date(Number.NaN), to = new Date(Number.NaN) } = request;
      const interval = request.interval === SummaryInterval.DAY ? "day" : "hour";
      await deps.recordReading(context, {
        action: "audit.summarized",
        filter: filterText({ interval, from: request.from, to: request.to }),
      });
      const { openIntents, ...summary } = await deps.summarizeLog({ interval, from, to });
      return { ...summary, openIntents: openIntents.count, oldestOpenIntent: openIntents.oldest };
    },
    async getEntry(wanted, context) {
      const resource = wanted.id === "" ? String(wanted.sequence) : wanted.id;
      await deps.recordReading(context, { action: "audit.entry_read", resource });
      return toEntryResponse(await deps.getEntry(wanted));
    },
    async getCheckpoint({ atLeastSize }) {
      const checkpoint = await deps.findCheckpoint(atLeastSize);
      if (checkpoint === undefined)
        throw new DomainError("not_found", "The log has signed no checkpoint yet");
      return { checkpoint, verifierKey: deps.verifierKey };
    },
    proveInclusion: ({ sequence, treeSize }) => deps.proveInclusion(sequence, treeSize),
    async proveConsistency({ firstSize, secondSize }) {
      return { proof: await deps.proveConsistency(firstSize, secondSize) };
    },
    async *exportEntries({ firstSequence, lastSequence }, context) {
      const { signal } = context;
      await deps.recordReading(context, {
        action: "audit.exported",
        filter: filterText({ first: firstSequence, last: lastSequence }),
      });
      for await (const line of deps.exportEntries({ first: firstSequence, last: lastSequence })) {
        if (signal.aborted) throw new DomainError("service_unavailable");
        yield toExportResponse(line);
      }
    },
  };
}

function toEntryResponse({ entry, leaf, covered }: EntryWithProof): GetEntryResponse {
  return {
    entry: toWireEntry(entry),
    leafHash: leaf?.hash ?? Buffer.alloc(0),
    leafData: Buffer.from(leaf?.data ?? ""),
    inclusionProof: covered?.proof ?? [],
    checkpoint: covered?.checkpoint ?? "",
  };
}

function toExportResponse(line: ExportLine): ExportEntriesResponse {
  switch (line.kind) {
    case "log":
      return { line: { $case: "log", value: line.log } };
    case "removal":
      return { line: { $case: "removal", value: { note: line.note } } };
    case "checkpoint":
      return { line: { $case: "checkpoint", value: { note: line.note } } };
    case "entry": {
      const { entry, claimedEmailSalt, ...hashes } = line.entry;
      const salt = claimedEmailSalt ?? Buffer.alloc(0);
      return {
        line: { $case: "entry", value: { entry: toWireEntry(entry), ...hashes, claimedEmailSalt: salt } },
      };
    }
  }
}
