import type { AuditQueryServiceServer } from "../proto/gen/gatehouse/audit/v1/audit_query_service.ts";
import type { Callers, Implementation } from "../service-kit/rpc-server.ts";
import { fromWireOutcome, toWireEntry } from "./entry-rpc.ts";
import type { EntryPage, EntrySearch } from "./search-entries.ts";

export const AUDIT_QUERY_CALLERS: Callers<AuditQueryServiceServer> = {
  searchEntries: ["gateway", "operator"],
};

interface Deps {
  searchEntries: (search: EntrySearch) => Promise<EntryPage>;
}

/** Adapts AuditQueryService. */
export function createAuditQueryRpc(deps: Deps): Implementation<AuditQueryServiceServer> {
  return {
    async searchEntries(request) {
      const outcome = fromWireOutcome(request.outcome);
      const page = await deps.searchEntries({ ...request, outcome });
      return { entries: page.entries.map(toWireEntry), nextCursor: page.nextCursor };
    },
  };
}
