import type { Following } from "./follow-entries.ts";
import type { EntrySearch } from "./search-entries.ts";

/** Every entry; who follows begins where the logs end. */
export const ANY: EntrySearch & Following = {
  actorUserId: "",
  action: "",
  resource: "",
  requestId: "",
  outcome: undefined,
  withoutActions: [],
  from: undefined,
  to: undefined,
  cursor: "",
  limit: 100,
  afterSequence: undefined,
  after: [],
};
