import type { ClientReadableStream } from "@grpc/grpc-js";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { callUnary, openServerStream } from "#kit/rpc/rpc-client.ts";
import { fromRpcError } from "#kit/rpc/rpc-errors.ts";
import { DomainError } from "#kit/values/errors.ts";
import type {
  AuditQueryServiceClient,
  ExportEntriesRequest,
  ExportEntriesResponse,
} from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { type ExportLine, toExportLine } from "./export-line.ts";

const CALL_BUDGET_MS = 10_000;
const SILENCE_MS = 30_000;
const MAX_BATCH = 500;
const MAX_CUTS_WITHOUT_PROGRESS = 3;

/** Numbers of all logs, of which log 0 comes first. @throws {DomainError} `not_found` if log 0 has no checkpoint yet. */
export async function logNumbers(client: AuditQueryServiceClient): Promise<number[]> {
  const context = newCallContext({ budgetMs: CALL_BUDGET_MS });
  const { logs } = await callUnary(client, client.getCheckpoint, { atLeastSize: 0, log: 0 }, context);
  return [0, ...logs.filter((log) => log !== 0)];
}

/**
 * Continues in a new stream, because servers end connections after ten minutes.
 * @param signal ends it. @throws {DomainError}
 */
export async function* exportedLines(
  client: AuditQueryServiceClient,
  request: ExportEntriesRequest,
  signal?: AbortSignal,
): AsyncGenerator<readonly ExportLine[]> {
  const so = {
    lastSequence: 0,
    lastLogged: 0,
    lastNote: "",
    removals: new Set<string>(),
    hasLog: false,
    hasEntry: false,
  };
  const isNew = (line: ExportLine): boolean => {
    if (line.type === "log") {
      if (so.hasLog) return false;
      so.hasLog = true;
      so.lastLogged = line.lastSequence;
      so.lastSequence = line.firstSequence - 1;
    } else if (line.type === "entry") {
      // Skips only repetitions by a new stream, because the verifier must see everything else.
      if (cuts > 0 && line.entry.sequence <= so.lastSequence) return false;
      so.lastSequence = line.entry.sequence;
      so.hasEntry = true;
    } else if (line.type === "removal") {
      // One that is new behind entries is of entries that came before the cut.
      if (cuts > 0 && (so.hasEntry || so.removals.has(line.note))) return false;
      so.removals.add(line.note);
    } else {
      // A new stream begins after the last entry, so it can only repeat the last checkpoint.
      if (cuts > 0 && line.note === so.lastNote) return false;
      so.lastNote = line.note;
    }
    return true;
  };
  let cuts = 0;
  for (let inVain = 0; ; cuts += 1) {
    const from = so.hasLog
      ? {
          firstSequence: Math.min(so.lastSequence + 1, so.lastLogged),
          lastSequence: so.lastLogged,
          log: request.log,
        }
      : request;
    try {
      for await (const batch of streamed(client, from, signal)) {
        const lines = batch.filter(isNew);
        if (lines.length > 0) inVain = 0;
        if (lines.length > 0) yield lines;
      }
      return;
    } catch (error) {
      inVain += 1;
      const isCut = error instanceof DomainError && error.code === "service_unavailable";
      if (!isCut || !so.hasLog || signal?.aborted || inVain > MAX_CUTS_WITHOUT_PROGRESS) throw error;
    }
  }
}

async function* streamed(
  client: AuditQueryServiceClient,
  request: ExportEntriesRequest,
  signal: AbortSignal | undefined,
): AsyncGenerator<readonly ExportLine[]> {
  const stream = openServerStream(client, client.exportEntries, request, newCallContext());
  const end = () => void stream.destroy(new DomainError("service_unavailable"));
  signal?.addEventListener("abort", end);
  const silence = setTimeout(() => {
    stream.destroy(new DomainError("service_unavailable", `The log sent nothing for ${SILENCE_MS} ms`));
  }, SILENCE_MS);
  let batch: ExportLine[] = [];
  try {
    for await (const message of stream as ClientReadableStream<ExportEntriesResponse> &
      AsyncIterable<unknown>) {
      silence.refresh();
      batch.push(toExportLine(message as ExportEntriesResponse));
      if (batch.length < MAX_BATCH) continue;
      yield batch;
      batch = [];
    }
    yield batch;
  } catch (error) {
    if (batch.length > 0) yield batch; // Received before the cut.
    if (error instanceof DomainError) throw error;
    if (error instanceof Error && "code" in error && "details" in error)
      throw fromRpcError(error as Parameters<typeof fromRpcError>[0]);
    throw error;
  } finally {
    clearTimeout(silence);
    signal?.removeEventListener("abort", end);
    stream.cancel();
  }
}
