import { callUnary } from "#kit/rpc/rpc-client.ts";
import { AuditQueryServiceClient, SummaryInterval } from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import type { Command } from "../../command.ts";
import { oneOf } from "../one-of.ts";
import { table } from "../table.ts";
import { timeOf } from "../time-of.ts";

const DAY_MS = 86_400_000;
const INTERVALS = new Map<string, SummaryInterval>([
  ["hour", SummaryInterval.HOUR],
  ["day", SummaryInterval.DAY],
]);

export const auditSummary: Command = {
  name: "audit summary",
  summary: "Count what is in the log: logins by hour or day, refusals by reason, and calls without outcome",
  details:
    "Counted from the log and not proven. Default: the last 24 hours, by hour. At most 31 days by hour, 366 by day.",
  positionals: [],
  options: {
    from: { type: "string", value: "time", description: "at this time or later: 2026-11-21T09:30:00Z" },
    to: { type: "string", value: "time", description: "before this time; default: now" },
    interval: { type: "string", value: "interval", description: "hour or day" },
  },
  async run({ values }, backend) {
    const to = timeOf(values, "to") ?? new Date();
    const from = timeOf(values, "from") ?? new Date(to.getTime() - DAY_MS);
    const interval = oneOf("--interval", INTERVALS, values.get("interval") ?? "hour");
    const summary = await backend.call("audit-service", AuditQueryServiceClient, (client, context) =>
      callUnary(client, client.summarizeLogins, { from, to, interval }, context),
    );
    const buckets = summary.buckets.map(({ start, logins, failures }) => ({
      start: start?.toISOString() ?? "",
      logins,
      failures,
    }));
    const { refusals, openIntents, oldestOpenIntent, countedUpTo, size } = summary;
    const oldest = oldestOpenIntent?.toISOString() ?? null;
    return {
      text: [
        table(
          ["FROM", "LOGINS", "REFUSED"],
          buckets.map((bucket) => Object.values(bucket).map(String)),
        ),
        table(
          ["REASON", "REFUSED"],
          refusals.map(({ reason, count }) => [reason, String(count)]),
        ),
        `Calls without outcome: ${openIntents}${oldest === null ? "" : `, the oldest of ${oldest}`}`,
        `Counted up to entry ${countedUpTo} of ${size}.`,
      ].join("\n\n"),
      json: { buckets, refusals, openIntents, oldestOpenIntent: oldest, countedUpTo, size },
    };
  },
};
