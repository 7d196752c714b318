import { toLoggedEntry } from "#audit-client/stream/export-line.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { callUnary } from "#kit/rpc/rpc-client.ts";
import {
  AuditQueryServiceClient,
  type SearchEntriesRequest,
} from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { type Entry, Outcome } from "#proto/gatehouse/audit/v1/entry.ts";
import type { Command } from "../../command.ts";
import { printableJson } from "../../printable.ts";
import { UsageError } from "../../usage-error.ts";
import { table } from "../table.ts";
import { timeOf } from "../time-of.ts";
import { wholeNumber } from "../whole-number.ts";

const PAGE = 100;
const DEFAULT_LIMIT = 50;
const PAGE_BUDGET_MS = 10_000;
const OUTCOMES: ReadonlyMap<string, Outcome> = new Map([
  ["success", Outcome.SUCCESS],
  ["failure", Outcome.FAILURE],
  ["unknown", Outcome.UNKNOWN],
]);
const HEAD = ["SEQUENCE", "TIME", "KIND", "ACTION", "OUTCOME", "STATUS", "ACTOR", "RESOURCE", "REQUEST ID"];

const text = (value: string, description: string) => ({ type: "string", value, description }) as const;

export const FILTER_OPTIONS = {
  actor: text("actor", "of this user, client:<id>, operator:<name> or auditor:<name>"),
  action: text("name", "of this action: auth.login; all of auth: auth."),
  resource: text("id", "on this resource"),
  outcome: text("outcome", "success, failure or unknown"),
};

export const auditSearch: Command = {
  name: "audit search",
  summary: "Show audit entries that match every filter, newest first",
  details: "--json prints one entry per line (JSON Lines).",
  positionals: [],
  options: {
    ...FILTER_OPTIONS,
    "request-id": text("id", "of this request"),
    from: text("time", "at this time or later: 2026-11-21T09:30:00Z"),
    to: text("time", "before this time"),
    limit: text("number", `at most this number (default ${DEFAULT_LIMIT})`),
    all: { type: "boolean", description: "without a limit" },
  },
  async run({ values, flags }, backend, terminal) {
    const limit = wholeNumber(values, "limit", { min: 1, max: 1_000_000 });
    if (limit !== undefined && flags.has("all")) throw new UsageError("Specify either --limit or --all");
    const filter = filterOf(values);
    const most = flags.has("all") ? Number.POSITIVE_INFINITY : (limit ?? DEFAULT_LIMIT);
    const write = flags.has("json") ? entryLines : asTable();
    return backend.call("audit-service", AuditQueryServiceClient, async (client) => {
      let cursor = "";
      let left = most;
      do {
        const request = { ...filter, cursor, limit: Math.min(PAGE, left) };
        const context = newCallContext({ budgetMs: PAGE_BUDGET_MS });
        const page = await callUnary(client, client.searchEntries, request, context);
        if (page.entries.length > 0 || cursor === "") await terminal.writeOut(write(page.entries));
        cursor = page.nextCursor;
        left -= page.entries.length;
      } while (cursor !== "" && left > 0);
      if (cursor !== "" && limit === undefined)
        terminal.writeError(`gatehouse: these are the newest ${most}; there are more: --limit or --all\n`);
      return undefined;
    });
  },
};

function filterOf(values: ReadonlyMap<string, string>): Omit<SearchEntriesRequest, "cursor" | "limit"> {
  return {
    actorUserId: values.get("actor") ?? "",
    action: values.get("action") ?? "",
    resource: values.get("resource") ?? "",
    requestId: values.get("request-id") ?? "",
    outcome: outcomeNamed(values.get("outcome")),
    withoutActions: [],
    from: timeOf(values, "from"),
    to: timeOf(values, "to"),
  };
}

export function outcomeNamed(outcome: string | undefined): Outcome {
  const known = outcome === undefined ? Outcome.UNSPECIFIED : OUTCOMES.get(outcome);
  if (known === undefined) throw new UsageError("--outcome must be success, failure or unknown");
  return known;
}

export function entryLines(entries: readonly Entry[]): string {
  return entries
    .map((entry) => ({
      ...toLoggedEntry(entry),
      log: entry.log,
      claimedEmail: entry.actor?.claimedEmail ?? "",
    }))
    .map((entry) => `${printableJson(entry)}\n`)
    .join("");
}

/** Each page has its own column widths. */
function asTable() {
  let isFirst = true;
  return (entries: readonly Entry[]): string => {
    const page = table(HEAD, entries.map(entryCells));
    const shown = isFirst ? page : page.slice(page.indexOf("\n") + 1);
    isFirst = false;
    return `${shown}\n`;
  };
}

export function entryCells(entry: Entry): string[] {
  const { sequence, occurredAt, kind, action, outcome, httpStatus, resource, requestId } =
    toLoggedEntry(entry);
  const actor = entry.actor?.userId || entry.actor?.claimedEmail || "";
  const status = httpStatus === 0 ? "" : String(httpStatus);
  const place = sequence === 0 ? "" : placeText(entry.log, sequence);
  return [place, occurredAt, kind, action, outcome, status, actor, resource, requestId];
}

/** `4711`; of log 1 `1:4711`. */
export function placeText(log: number, sequence: number): string {
  return log === 0 ? String(sequence) : `${log}:${sequence}`;
}
