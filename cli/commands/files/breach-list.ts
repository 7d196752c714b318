import { createReadStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { buildBreachList } from "#breach-list/build-breach-list.ts";
import { BreachListError, type ListHeader } from "#breach-list/list-format.ts";
import { openBreachList } from "#breach-list/open-breach-list.ts";
import { CliError } from "../../cli-error.ts";
import type { Command, CommandInput, Terminal } from "../../command.ts";
import { EXIT } from "../../exit-code.ts";
import { createProgress, QUIET_OPTION, sizeOf } from "../progress.ts";
import { replaceFile } from "../replaced-file.ts";
import { wholeNumber } from "../whole-number.ts";

const READ_BYTES = 1024 * 1024;
/** The service is another user, and the list is no secret. */
const MODE = 0o644;
const COUNTS = { min: 1, max: Number.MAX_SAFE_INTEGER };

export const breachListBuild: Command = {
  name: "breach-list build",
  summary: "Build a list of breached passwords, for identity-service, from a file of SHA-1 hashes",
  details:
    "The file has HASH or HASH:COUNT in each line, in any order, as Have I Been Pwned's list of SHA-1 hashes. The list\n" +
    "takes 4.1 bytes a hash; the folder of --output needs 8 more for each while it is built. The list is complete or\n" +
    "absent, and replaces a former one at the end.",
  positionals: ["hashes"],
  options: {
    output: { type: "string", value: "file", description: "write the list to this file", required: true },
    label: { type: "string", value: "text", description: "describes the source (default: the file's name)" },
    "min-count": { type: "string", value: "number", description: "leave out hashes with a smaller count" },
    force: { type: "boolean", description: "replace an existing file" },
    ...QUIET_OPTION,
  },
  async run(input, _backend, terminal) {
    const output = input.values.get("output") ?? "";
    const header = await build(input, output, terminal);
    return { text: describe(output, header), json: viewOf(output, header) };
  },
};

export const breachListCheck: Command = {
  name: "breach-list check",
  summary: "Verify a list of breached passwords, as identity-service would, and print what it is",
  positionals: ["list"],
  options: QUIET_OPTION,
  async run({ positionals: [path = ""], flags }, _backend, terminal) {
    using progress = createProgress(terminal, flags, "MB");
    const onRead = (bytes: number, of: number) => progress.show(inMb(bytes), inMb(of));
    const list = await openBreachList(path, onRead).catch(refuse);
    await list.close();
    return { text: describe(path, list.header), json: viewOf(path, list.header) };
  },
};

async function build(
  { positionals: [hashes = ""], values, flags }: CommandInput,
  path: string,
  terminal: Terminal,
): Promise<ListHeader> {
  const minCount = wholeNumber(values, "min-count", COUNTS) ?? 1;
  const label = values.get("label") ?? basename(hashes);
  const size = sizeOf(hashes);
  using reading = createProgress(terminal, flags, "hashes read");
  using writing = createProgress(terminal, flags, "hashes written");
  const onRead = (count: number, bytes: number) => reading.showOfFile(count, bytes, size);
  const now = () => new Date();
  let header: ListHeader | undefined;
  await replaceFile(path, { force: flags.has("force"), mode: MODE }, async (output, signal) => {
    const scratch = await mkdtemp(join(dirname(path), `.${basename(path)}.`));
    const input = createReadStream(hashes, { highWaterMark: READ_BYTES });
    try {
      const job = { input, output, scratch, label, minCount, now, signal, onRead, onWritten: writing.show };
      header = await buildBreachList(job).catch((error) => refuse(error, hashes));
    } finally {
      await rm(scratch, { recursive: true });
    }
  });
  return header as ListHeader;
}

const inMb = (bytes: number) => Math.round(bytes / 1_000_000);

/** @param hashes the file that the list is built from. @throws {CliError} */
function refuse(error: unknown, hashes?: string): never {
  const { syscall, path, code } = error as NodeJS.ErrnoException;
  const isUnreadable = syscall !== undefined && (path === hashes || syscall === "read");
  if (!(error instanceof BreachListError || isUnreadable)) throw error;
  const reason = error instanceof BreachListError ? error.message : `it cannot be read (${code})`;
  throw new CliError(hashes === undefined ? reason : `${hashes}: ${reason}`, {
    exitCode: EXIT.input,
    code: "breach_list_invalid",
    cause: error,
  });
}

function describe(path: string, { entries, builtAt, label }: ListHeader): string {
  return `${path}: ${entries.toLocaleString("en")} hashes, built ${builtAt.toISOString()}, from ${label}`;
}

function viewOf(path: string, { entries, builtAt, label, checksum }: ListHeader) {
  return { path, entries, builtAt: builtAt.toISOString(), label, sha256: checksum.toString("hex") };
}
