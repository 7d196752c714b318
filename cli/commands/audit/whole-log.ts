import type { ExportLine } from "#audit-client/stream/export-line.ts";
import { exportedLines } from "#audit-client/stream/exported-lines.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { AuditQueryServiceClient } from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import type { Terminal } from "../../command.ts";

/**
 * All of a log. One other than log 0 is left out with a note while it has no checkpoint.
 * @param signal ends it. @throws {DomainError}
 */
export async function* wholeLog(
  client: AuditQueryServiceClient,
  log: number,
  writeError: Terminal["writeError"],
  signal?: AbortSignal,
): AsyncGenerator<readonly ExportLine[]> {
  let isBegun = false;
  try {
    for await (const lines of exportedLines(client, { firstSequence: 0, lastSequence: 0, log }, signal)) {
      isBegun ||= lines.length > 0;
      yield lines;
    }
  } catch (error) {
    const isEmpty = !isBegun && error instanceof DomainError && error.code === "not_found";
    if (log === 0 || !isEmpty) throw error;
    writeError(`gatehouse: log ${log} has no checkpoint yet, and is left out\n`);
  }
}
