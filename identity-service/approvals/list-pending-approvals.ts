import { findAccountById } from "../users/account-store.ts";
import { MAX_TRIES } from "./approval-state.ts";
import { type Approval, selectPendingApprovals } from "./approval-store.ts";
import type { ApprovalDeps } from "./ask-approval.ts";

/** A session has ten at most. What is beyond these is not listed, and can still be opened by its id. */
const MAX_LISTED = 50;

/** The newest that wait for the user, whichever session has asked. Changes nothing. */
export async function listPendingApprovals(
  deps: Pick<ApprovalDeps, "sql" | "now">,
  userId: string,
): Promise<Approval[]> {
  const user = await findAccountById(deps.sql, userId);
  if (user?.status !== "active") return [];
  return selectPendingApprovals(deps.sql, userId, {
    now: deps.now(),
    maxTries: MAX_TRIES,
    limit: MAX_LISTED,
  });
}
