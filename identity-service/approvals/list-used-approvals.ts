import { validate as isUuid } from "uuid";
import type { Sql } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import { selectUsedApprovals, type UsedApproval, type UsedApprovalFilter } from "./approval-store.ts";

const MAX_LIMIT = 100;
/** Below the limit of a message. */
const MAX_PAGE_BYTES = 32_768;
/** Ids, digest, nonce, method and domain of an approval. */
const MAX_OTHER_BYTES = 512;

export interface ListUsedApprovals extends Pick<UsedApprovalFilter, "from" | "to" | "limit"> {
  cursor?: string | undefined;
}

/** At least one approval a page, however large, if there is one. @throws {DomainError} `validation_failed`. */
export async function listUsedApprovals(
  deps: { sql: Sql },
  { cursor, limit, from, to }: ListUsedApprovals,
): Promise<{ approvals: UsedApproval[]; nextCursor: string | undefined }> {
  const after = cursor === undefined ? undefined : placeOf(cursor);
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT) throw invalid("limit");
  const found = await selectUsedApprovals(deps.sql, { after, from, to, limit: limit + 1 });
  const approvals: UsedApproval[] = [];
  let bytes = 0;
  for (const approval of found.slice(0, limit)) {
    bytes += sizeOf(approval);
    if (bytes > MAX_PAGE_BYTES && approvals.length > 0) break;
    approvals.push(approval);
  }
  const last = approvals.at(-1);
  const isMore = last !== undefined && approvals.length < found.length;
  return { approvals, nextCursor: isMore ? `${last.usedAt.getTime()}.${last.id}` : undefined };
}

function sizeOf({ transactionText, passkey }: UsedApproval): number {
  const bytes = Buffer.byteLength(transactionText) + MAX_OTHER_BYTES;
  if (passkey === undefined) return bytes;
  const { credentialId, publicKey, authenticatorData, clientData, signature } = passkey;
  const parts = [credentialId, publicKey, authenticatorData, clientData, signature];
  return parts.reduce((sum, part) => sum + part.length, bytes);
}

function placeOf(cursor: string): { usedAt: Date; id: string } {
  const [, time = "", id = ""] = /^(\d{1,15})\.([0-9a-f-]{36})$/.exec(cursor) ?? [];
  if (!isUuid(id)) throw invalid("cursor");
  return { usedAt: new Date(Number(time)), id };
}

function invalid(field: string): DomainError {
  const problem = { field, code: "invalid_format", message: "is invalid" };
  return new DomainError("validation_failed", undefined, { fields: [problem] });
}
