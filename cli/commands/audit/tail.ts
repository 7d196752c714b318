import { setTimeout as sleep } from "node:timers/promises";
import { type CallContext, newCallContext } from "#kit/rpc/call-context.ts";
import { callUnary } from "#kit/rpc/rpc-client.ts";
import {
  AuditQueryServiceClient,
  type FollowEntriesRequest,
  type LogPlace,
} from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { CliError } from "../../cli-error.ts";
import type { Command } from "../../command.ts";
import { EXIT } from "../../exit-code.ts";
import { printable } from "../../printable.ts";
import { logPlaces } from "../log-places.ts";
import { entryCells, entryLines, FILTER_OPTIONS, outcomeNamed } from "./audit-search.ts";

const POLL_MS = 1_000;
const CALL_BUDGET_MS = 10_000;

export const tail: Command = {
  name: "tail",
  summary: "Show entries of the audit log as they come",
  details:
    "Ends with Ctrl-C. After a break of the connection it goes on where it was, and loses nothing. --after 0 begins with " +
    "the first entry of every log, 17,1:40 behind entry 17 of log 0 and entry 40 of log 1. --json prints one entry per line (JSON Lines). The log records who follows it and from where on, every ten minutes.",
  positionals: [],
  options: {
    ...FILTER_OPTIONS,
    after: { type: "string", value: "place", description: "entries after this one; default: from now on" },
  },
  async run({ values, flags }, backend, terminal) {
    const after = values.get("after");
    const request: FollowEntriesRequest = {
      after: after === undefined ? [] : logPlaces("after", after),
      actorUserId: values.get("actor") ?? "",
      action: values.get("action") ?? "",
      resource: values.get("resource") ?? "",
      outcome: outcomeNamed(values.get("outcome")),
      withoutActions: [],
      limit: 0,
    };
    const stopped = new AbortController();
    const stop = () => stopped.abort();
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, stop);
    const pause = () => sleep(POLL_MS, undefined, { signal: stopped.signal }).catch(() => undefined);
    let [hasBegun, isAway] = [false, false];
    let logsAway = "";
    const follow = async (client: AuditQueryServiceClient, { requestId }: CallContext) => {
      while (!stopped.signal.aborted) {
        const context = { ...newCallContext({ budgetMs: CALL_BUDGET_MS }), requestId };
        const page = await callUnary(client, client.followEntries, request, context);
        if (after === undefined && !hasBegun && page.away.length > 0) throw unknownEnd(page.away);
        hasBegun = true;
        if (isAway) terminal.writeError("gatehouse: following again\n");
        isAway = false;
        if (page.away.join() !== logsAway) {
          logsAway = page.away.join();
          const what = logsAway === "" ? "all logs answer again" : `logs that do not answer: ${logsAway}`;
          terminal.writeError(`gatehouse: ${what}\n`);
        }
        const isNew = ({ log }: LogPlace) =>
          after === "0" && !request.after.some((place) => place.log === log);
        const hasNew = page.next.some(isNew);
        request.after = page.next.map((place) => (isNew(place) ? { ...place, sequence: 0 } : place));
        const shown = flags.has("json") ? entryLines(page.entries) : page.entries.map(asLine).join("");
        if (shown !== "") await terminal.writeOut(shown);
        if (!page.hasMore && !hasNew) await pause();
      }
    };
    try {
      while (!stopped.signal.aborted) {
        try {
          // One connection until it breaks.
          await backend.call("audit-service", AuditQueryServiceClient, follow);
        } catch (error) {
          // At the beginning it is rather a mistake than a break.
          const isBreak = error instanceof CliError && error.exitCode === EXIT.unavailable;
          if (!isBreak || !hasBegun) throw error;
          if (!isAway)
            terminal.writeError(`gatehouse: ${printable(error.message)}\ngatehouse: trying again\n`);
          isAway = true;
          await pause();
        }
      }
    } finally {
      for (const signal of ["SIGINT", "SIGTERM"] as const) process.removeListener(signal, stop);
    }
    return undefined;
  },
};

/** Its end is where following begins. Followed from its return on, its entries until then would be left out in silence. */
function unknownEnd(away: readonly number[]): CliError {
  const logs = `Logs that do not answer: ${away.join()}`;
  return new CliError(`${logs}. The others are followed from places that are named: --after`, {
    exitCode: EXIT.unavailable,
    code: "service_unavailable",
  });
}

const asLine = (entry: Parameters<typeof entryCells>[0]) =>
  `${entryCells(entry)
    .map((cell) => printable(cell || "-"))
    .join("  ")}\n`;
