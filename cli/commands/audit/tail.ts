import { setTimeout as sleep } from "node:timers/promises";
import { type CallContext, newCallContext } from "#kit/rpc/call-context.ts";
import { callUnary } from "#kit/rpc/rpc-client.ts";
import {
  AuditQueryServiceClient,
  type FollowEntriesRequest,
} from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { CliError } from "../../cli-error.ts";
import type { Command } from "../../command.ts";
import { EXIT } from "../../exit-code.ts";
import { printable } from "../../printable.ts";
import { wholeNumber } from "../whole-number.ts";
import { entryCells, entryLines, FILTER_OPTIONS, outcomeNamed } from "./audit-search.ts";

const POLL_MS = 1_000;
const CALL_BUDGET_MS = 10_000;

export const tail: Command = {
  name: "tail",
  summary: "Show entries of the audit log as they come",
  details:
    "Ends with Ctrl-C. After a break of the connection it goes on where it was, and loses nothing. --after 0 begins with " +
    "the first entry. --json prints one entry per line (JSON Lines). The log records who follows it and from where on, every ten minutes.",
  positionals: [],
  options: {
    ...FILTER_OPTIONS,
    after: { type: "string", value: "sequence", description: "entries after this one; default: from now on" },
  },
  async run({ values, flags }, backend, terminal) {
    const after = wholeNumber(values, "after", { min: 0, max: Number.MAX_SAFE_INTEGER });
    const request: FollowEntriesRequest = {
      afterSequence: after,
      actorUserId: values.get("actor") ?? "",
      action: values.get("action") ?? "",
      resource: values.get("resource") ?? "",
      outcome: outcomeNamed(values.get("outcome")),
      withoutActions: [],
    };
    const stopped = new AbortController();
    const stop = () => stopped.abort();
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, stop);
    const pause = () => sleep(POLL_MS, undefined, { signal: stopped.signal }).catch(() => undefined);
    let [hasBegun, isAway] = [false, false];
    const follow = async (client: AuditQueryServiceClient, { requestId }: CallContext) => {
      while (!stopped.signal.aborted) {
        const context = { ...newCallContext({ budgetMs: CALL_BUDGET_MS }), requestId };
        const page = await callUnary(client, client.followEntries, request, context);
        hasBegun = true;
        if (isAway) terminal.writeError("gatehouse: following again\n");
        isAway = false;
        request.afterSequence = page.nextAfterSequence;
        const shown = flags.has("json") ? entryLines(page.entries) : page.entries.map(asLine).join("");
        if (shown !== "") await terminal.writeOut(shown);
        if (page.nextAfterSequence >= page.size) await pause();
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
          if (!isAway) terminal.writeError(`gatehouse: ${error.message}\ngatehouse: trying again\n`);
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

const asLine = (entry: Parameters<typeof entryCells>[0]) =>
  `${entryCells(entry)
    .map((cell) => printable(cell || "-"))
    .join("  ")}\n`;
