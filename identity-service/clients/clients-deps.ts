import type { RecordAuditDeps } from "../audit/record-audit.ts";
import type { ApiKeyIds } from "./api-keys.ts";
import type { AuthorizeGrantDeps } from "./assert-may-grant.ts";
import type { EndClientTokensDeps } from "./end-client-tokens.ts";

export interface ClientsDeps extends EndClientTokensDeps, RecordAuditDeps, AuthorizeGrantDeps {
  apiKeyIds: ApiKeyIds;
}
