import type { ClientReadableStream } from "@grpc/grpc-js";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { openServerStream } from "#kit/rpc/rpc-client.ts";
import { fromRpcError } from "#kit/rpc/rpc-errors.ts";
import { DomainError } from "#kit/values/errors.ts";
import type {
  AuditQueryServiceClient,
  ExportEntriesRequest,
  ExportEntriesResponse,
} from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import type { ExportLine } from "../../audit-verifier/export-line.ts";
import { toExportLine } from "./audit-export-line.ts";

const SILENCE_MS = 30_000;
const MAX_BATCH = 500;
const MAX_CUTS_WITHOUT_PROGRESS = 3;

/** Continues in a new stream, because servers end connections after ten minutes. @throws {DomainError} */
export async function* exportedLines(
  client: AuditQueryServiceClient,
  request: ExportEntriesRequest,
): AsyncGenerator<readonly ExportLine[]> {
  const so = { lastSequence: 0, lastLogged: 0, lastNote: "", removals: new Set<string>(), hasLog: false };
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
    } else if (line.type === "removal") {
      if (cuts > 0 && so.removals.has(line.note)) return false;
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
      ? { firstSequence: Math.min(so.lastSequence + 1, so.lastLogged), lastSequence: so.lastLogged }
      : request;
    try {
      for await (const batch of streamed(client, from)) {
        const lines = batch.filter(isNew);
        if (lines.length > 0) inVain = 0;
        if (lines.length > 0) yield lines;
      }
      return;
    } catch (error) {
      inVain += 1;
      const isCut = error instanceof DomainError && error.code === "service_unavailable";
      if (!isCut || !so.hasLog || inVain > MAX_CUTS_WITHOUT_PROGRESS) throw error;
    }
  }
}

async function* streamed(
  client: AuditQueryServiceClient,
  request: ExportEntriesRequest,
): AsyncGenerator<readonly ExportLine[]> {
  const stream = openServerStream(client, client.exportEntries, request, newCallContext());
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
    stream.cancel();
  }
}
