import { setTimeout as sleep } from "node:timers/promises";
import { DomainError } from "#kit/values/errors.ts";
import { CliError } from "../../cli-error.ts";
import type { CommandInput, CommandOutput, Terminal } from "../../command.ts";
import { EXIT } from "../../exit-code.ts";
import { UsageError } from "../../usage-error.ts";
import { createProgress, QUIET_OPTION } from "../progress.ts";
import { readInput } from "../rpc-request.ts";

const MAX_USERS = 100_000;
const MAX_WAITS = 20;
const MAX_WAIT_MS = 60_000;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const TOO_FAST: readonly string[] = ["too_many_requests", "busy"];
/** The reason is refused, or the caller. */
const CONCERNS_ALL: readonly string[] = ["validation_failed", "bad_request", "caller_not_allowed"];

export const FROM_OPTIONS = {
  from: {
    type: "string",
    value: "file",
    description: "all users in a file, one id a line; - for standard input",
  },
  ...QUIET_OPTION,
} as const;
export const FROM_DETAILS =
  "With --from each user is a call and an entry of the audit log. What is refused is listed at the end, and the exit\n" +
  "code is 1 then.";

/** Acts on the user of the command line, or one by one on those of --from. */
export async function forEachUser(
  { positionals: [id], values, flags }: CommandInput,
  terminal: Terminal,
  act: (userId: string) => Promise<CommandOutput>,
): Promise<CommandOutput> {
  const from = values.get("from");
  if ((id === undefined) === (from === undefined))
    throw new UsageError("Specify one <id>, or --from with a file of ids");
  if (from === undefined) return act(id ?? "");
  const ids = idsIn(await readInput(from), from);
  const done: CommandOutput[] = [];
  const refused: { id: string; code: string; message: string }[] = [];
  let end: CliError | undefined;
  using progress = createProgress(terminal, flags, "users");
  for (const userId of ids) {
    try {
      done.push(await unhurried(() => act(userId)));
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
      const isOfAll = error.exitCode !== EXIT.failed || CONCERNS_ALL.includes(error.code);
      if (isOfAll && done.length + refused.length === 0) throw error;
      const { code, cause } = error;
      refused.push({
        id: userId,
        code,
        message: cause instanceof DomainError ? cause.message : error.message,
      });
      if (isOfAll) end = error;
    }
    progress.show(done.length + refused.length, ids.length);
    if (end !== undefined) break;
  }
  const untried = ids.slice(done.length + refused.length);
  return {
    text: [
      ...done.map(({ text }) => text),
      `Done for ${done.length} of ${ids.length} users`,
      ...(refused.length === 0 ? [] : [`Refused: ${refused.length}`]),
      ...refused.map(({ id: userId, message }) => `  ${userId}  ${message}`),
      ...(untried.length === 0 ? [] : [`Not tried: ${untried.length}, from ${untried[0]} on`]),
    ].join("\n"),
    json: { done: done.map(({ json }) => json), refused, untried },
    exitCode: end?.exitCode ?? (refused.length === 0 ? EXIT.ok : EXIT.failed),
  };
}

/** Each once. @throws {CliError} 66, before anything is sent. */
function idsIn(text: string, file: string): string[] {
  const lines = text.split(/\r?\n/).map((line, index) => ({ id: line.trim().toLowerCase(), at: index + 1 }));
  const named = lines.filter(({ id }) => id !== "" && !id.startsWith("#"));
  const wrong = named.filter(({ id }) => !UUID.test(id)).map(({ at }) => at);
  const ids = [...new Set(named.map(({ id }) => id))];
  if (wrong.length === 0 && ids.length > 0 && ids.length <= MAX_USERS) return ids;
  const problem =
    wrong.length > 0
      ? `has no user's id in ${wrong.length === 1 ? "line" : `${wrong.length} lines, first in line`} ${wrong[0]}`
      : `must have 1 to ${MAX_USERS.toLocaleString("en")} ids of users`;
  const message = `${file === "-" ? "Standard input" : file} ${problem}. Nothing was done.`;
  throw new CliError(message, { exitCode: EXIT.input, code: "file_invalid" });
}

/** Where calls come too fast, it waits as long as the service says. */
async function unhurried<R>(work: () => Promise<R>): Promise<R> {
  for (let waits = 0; ; waits += 1) {
    try {
      return await work();
    } catch (error) {
      const cause = error instanceof CliError ? error.cause : undefined;
      const isFast = cause instanceof DomainError && TOO_FAST.includes(cause.code);
      if (!isFast || cause.retryAfterMs === undefined || waits === MAX_WAITS) throw error;
      await sleep(Math.min(cause.retryAfterMs, MAX_WAIT_MS));
    }
  }
}
