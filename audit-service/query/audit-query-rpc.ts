import {
  createFollowingRecorder,
  filterText,
  type RecordReading,
} from "#audit-client/stream/record-reading.ts";
import type { RpcStreamContext } from "#kit/rpc/rpc-handlers.ts";
import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import { DomainError } from "#kit/values/errors.ts";
import {
  type AuditQueryServiceServer,
  type ExportEntriesRequest,
  type ExportEntriesResponse,
  type GetEntryResponse,
  SummaryInterval,
} from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { fromWireOutcome, toWireEntry } from "../entries/entry-rpc.ts";
import { selectCheckpointCovering, selectLastCheckpoint } from "../log/checkpoint-store.ts";
import { type Logs, logNumbered, type ReadableLog } from "../logs/logs.ts";
import { type ExportLine, exportEntries } from "./export-entries.ts";
import type { FollowEntries } from "./follow-entries.ts";
import type { EntryWithProof } from "./get-entry.ts";
import type { Span } from "./login-count-store.ts";
import { proveConsistency, proveInclusion } from "./prove.ts";
import { createReaderTurns } from "./reader-turns.ts";
import type { EntryPage, EntrySearch } from "./search-entries.ts";
import type { LogSummary } from "./summarize-log.ts";

const READERS = ["gateway", "operator", "auditor"];

export const AUDIT_QUERY_CALLERS: Callers<AuditQueryServiceServer> = {
  searchEntries: READERS,
  followEntries: [...READERS, "event-service"],
  summarizeLogins: READERS,
  getEntry: READERS,
  getCheckpoint: READERS,
  proveInclusion: READERS,
  proveConsistency: READERS,
  exportEntries: [...READERS, "event-service"],
};

interface Deps {
  searchEntries: (search: EntrySearch) => Promise<EntryPage>;
  followEntries: FollowEntries;
  summarizeLogs: (span: Span) => Promise<LogSummary>;
  getEntry: (wanted: { id: string; sequence: number; log: number }) => Promise<EntryWithProof>;
  logs: Logs<ReadableLog>;
  recordReading: RecordReading;
  monotonicMs: () => number;
}

export function createAuditQueryRpc(deps: Deps): Implementation<AuditQueryServiceServer> {
  const { logs } = deps;
  const turns = createReaderTurns();
  const recordFollowing = createFollowingRecorder(deps.monotonicMs);
  return {
    searchEntries: turns.within("read", async (request, context) => {
      const outcome = fromWireOutcome(request.outcome);
      const { actorUserId: actor, action, resource, requestId: call, from, to, limit } = request;
      const without = request.withoutActions.join(" ");
      await deps.recordReading(context, {
        action: "audit.searched",
        filter: filterText({ actor, action, resource, request: call, outcome, without, from, to, limit }),
      });
      const page = await deps.searchEntries({ ...request, outcome });
      return { entries: page.entries.map(toWireEntry), nextCursor: page.nextCursor };
    }),
    followEntries: turns.within("follow", async (request, context) => {
      const outcome = fromWireOutcome(request.outcome);
      const { actorUserId: actor, action, resource, afterSequence: after } = request;
      const { person } = context;
      const places = after === undefined ? request.after : [{ log: 0, sequence: after }];
      // Without a place nothing is read.
      if (person !== undefined && places.length > 0) {
        const filter = { actor, action, resource, outcome, without: request.withoutActions.join(" ") };
        const place = request.after.map(({ log, sequence }) => `${log}:${sequence}`).join(",");
        await recordFollowing({ person, ...filter }, places, () =>
          deps.recordReading(context, {
            action: "audit.followed",
            filter: filterText({ ...filter, after, place }),
          }),
        );
      }
      const followed = await deps.followEntries({
        ...request,
        afterSequence: after,
        after: request.after,
        outcome,
      });
      const { entries, nextAfter: nextAfterSequence, ...rest } = followed;
      return { entries: entries.map(toWireEntry), nextAfterSequence, ...rest };
    }),
    summarizeLogins: turns.within("read", async (request, context) => {
      const { from = new Date(Number.NaN), to = new Date(Number.NaN) } = request;
      const interval = request.interval === SummaryInterval.DAY ? "day" : "hour";
      await deps.recordReading(context, {
        action: "audit.summarized",
        filter: filterText({ interval, from: request.from, to: request.to }),
      });
      const { openIntents, ...summary } = await deps.summarizeLogs({ interval, from, to });
      return { ...summary, openIntents: openIntents.count, oldestOpenIntent: openIntents.oldest };
    }),
    getEntry: turns.within("read", async (wanted, context) => {
      const { id, sequence, log } = wanted;
      const resource = id === "" ? String(sequence) : id;
      // A sequence counts in its log.
      const filter = filterText({ log: id === "" && log !== 0 ? log : undefined });
      await deps.recordReading(context, { action: "audit.entry_read", resource, filter });
      return toEntryResponse(await deps.getEntry(wanted));
    }),
    getCheckpoint: turns.within("read", async ({ atLeastSize, log }) => {
      const { sql, origin, verifierKey } = logNumbered(logs, log);
      const checkpoint =
        atLeastSize === 0
          ? await selectLastCheckpoint(sql, origin)
          : await selectCheckpointCovering(sql, origin, atLeastSize);
      if (checkpoint === undefined)
        throw new DomainError("not_found", "The log has signed no checkpoint yet");
      return { checkpoint: checkpoint.note, verifierKey, logs: logs.map(({ number }) => number) };
    }),
    proveInclusion: turns.within("read", async ({ sequence, treeSize, log }) => {
      return proveInclusion(logNumbered(logs, log).sql, sequence, treeSize);
    }),
    proveConsistency: turns.within("read", async ({ firstSize, secondSize, log }) => {
      return { proof: await proveConsistency(logNumbered(logs, log).sql, firstSize, secondSize) };
    }),
    async *exportEntries(request, context) {
      const release = await turns.take("export", context);
      try {
        yield* exportLog(deps, request, context);
      } finally {
        release();
      }
    },
  };
}

async function* exportLog(
  { logs, recordReading }: Pick<Deps, "logs" | "recordReading">,
  { firstSequence: first, lastSequence: last, log }: ExportEntriesRequest,
  context: RpcStreamContext,
): AsyncGenerator<ExportEntriesResponse, void> {
  const wanted = logNumbered(logs, log);
  await recordReading(context, {
    action: "audit.exported",
    filter: filterText({ log: log === 0 ? undefined : log, first, last }),
  });
  for await (const line of exportEntries(wanted, { first, last })) {
    if (context.signal.aborted) throw new DomainError("service_unavailable");
    yield toExportResponse(line, log);
  }
}

function toEntryResponse({ entry, proof, noted }: EntryWithProof): GetEntryResponse {
  return { entry: toWireEntry(entry), ...toProof(proof), noted: noted && toProof(noted) };
}

function toProof(proof: EntryWithProof["proof"]) {
  return {
    leafHash: proof?.leaf.hash ?? Buffer.alloc(0),
    leafData: Buffer.from(proof?.leaf.data ?? ""),
    inclusionProof: proof?.covered?.proof ?? [],
    checkpoint: proof?.covered?.checkpoint ?? "",
  };
}

function toExportResponse(line: ExportLine, log: number): ExportEntriesResponse {
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
        line: {
          $case: "entry",
          value: { entry: toWireEntry({ ...entry, log }), ...hashes, claimedEmailSalt: salt },
        },
      };
    }
  }
}
