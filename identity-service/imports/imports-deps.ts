import type { AccessRules } from "#access-file/access-rules.ts";
import type { Sql } from "#kit/database/postgres.ts";
import type { RecordAuditDeps } from "../audit/record-audit.ts";
import type { MfaKeys } from "../mfa/totp-secret.ts";

export interface ImportsDeps extends RecordAuditDeps {
  sql: Sql;
  smtpUtf8: boolean;
  access: Pick<AccessRules, "defaultRole" | "isDefined">;
  mfaKeys: MfaKeys;
  /** By the provider's name. */
  relyingParties: Pick<ReadonlyMap<string, { issuer: string }>, "get">;
  /** No imported hash may take more, because the process has this much for each. */
  hashMemoryKib: number;
}
