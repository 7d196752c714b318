import { statSync } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import {
  type BeginImportResponse,
  ImportRow,
  UserImportServiceClient,
} from "#proto/gatehouse/identity/v1/user_import_service.ts";
import { CliError } from "../../cli-error.ts";
import type { Command, CommandInput } from "../../command.ts";
import { EXIT } from "../../exit-code.ts";
import { UsageError } from "../../usage-error.ts";
import {
  digestFile,
  readUsers,
  SOURCES,
  type Source,
  type UserFile,
  type UserRow,
  userFileError,
} from "../../user-files/open-user-file.ts";
import { oneOf } from "../one-of.ts";
import { type PatientClient, patiently } from "../patient-call.ts";
import { createProgress, type Progress, QUIET_OPTION, sizeOf } from "../progress.ts";
import { replaceFile } from "../replaced-file.ts";

const MAX_BATCH_ROWS = 100;
/** Below the 64 KiB that a service receives. */
const MAX_BATCH_BYTES = 48 * 1024;

export const usersImport: Command = {
  name: "users import",
  summary: "Import users of another system, with the hashes of their passwords",
  details:
    "Begin with --check: it says which rows would be refused, and imports none. An import that was interrupted goes on\n" +
    "where it was when the same command is run again. Existing accounts are never changed. --output gets a line of JSON\n" +
    "for each row: the new id of the user, or why the row was refused. docs/migrate says how to export.",
  positionals: ["file"],
  options: {
    from: { type: "string", value: "system", description: `one of ${SOURCES.join(", ")}`, required: true },
    output: { type: "string", value: "file", description: "write what became of each row", required: true },
    check: { type: "boolean", description: "only say which rows would be refused" },
    passwords: { type: "string", value: "file", description: "auth0: the export of password hashes" },
    realm: {
      type: "string",
      value: "name",
      description: "keycloak: the realm, if the file has users of several",
    },
    role: {
      type: "string",
      value: "name=ROLE",
      description: "keycloak: realm role and our role; the first that fits counts",
      multiple: true,
    },
    provider: {
      type: "string",
      value: "name=provider",
      description: "provider there and here; identities at others are left out",
      multiple: true,
    },
    force: { type: "boolean", description: "replace an existing file" },
    ...QUIET_OPTION,
  },
  async run(input, backend, terminal) {
    const file = fileFrom(input);
    const output = input.values.get("output") ?? "";
    if (isSameFile(output, file.path) || (file.passwords !== undefined && isSameFile(output, file.passwords)))
      throw new UsageError("--output is a file that is imported");
    const isCheck = input.flags.has("check");
    const tally = new Tally();
    let importId: string | undefined;
    const work = backend.call("identity-service", UserImportServiceClient, (client, { requestId }) =>
      replaceFile(output, { force: input.flags.has("force") }, async (report, signal) => {
        const server = { client, requestId, signal };
        const progressOf = (what: string) => createProgress(terminal, input.flags, what);
        const job = { server, file, report, signal, progressOf, tally };
        if (isCheck) await checkFile(job);
        else importId = await importFile(job);
      }),
    );
    await work.catch((error: unknown) => {
      throw isCheck ? error : withAdvice(error);
    });
    return {
      text: `${tally.text(isCheck)}\nWhat became of each row: ${output}`,
      json: { ...(importId !== undefined && { importId }), ...tally.json(), output },
      exitCode: tally.refused === 0 ? EXIT.ok : EXIT.failed,
    };
  },
};

/** Also by links. */
function isSameFile(one: string, other: string): boolean {
  const [first, second] = [one, other].map((path) => statSync(path, { throwIfNoEntry: false }));
  return first !== undefined && first.dev === second?.dev && first.ino === second.ino;
}

/** What is stored stays so. */
function withAdvice(error: unknown): unknown {
  if (!(error instanceof CliError) || error.requestId === undefined) return error;
  const { exitCode, code, requestId, cause } = error;
  const message = `${error.message}\nWhat was imported stays. Run the same command again: it goes on where it was.`;
  return new CliError(message, { exitCode, code, requestId, cause });
}

interface Job {
  server: PatientClient<UserImportServiceClient>;
  file: UserFile;
  report: FileHandle;
  signal: AbortSignal;
  progressOf: (what: string) => Progress;
  tally: Tally;
}

function fileFrom({ positionals: [path = ""], values, lists }: CommandInput): UserFile {
  const source = oneOf(
    "--from",
    new Map(SOURCES.map((name): [string, Source] => [name, name])),
    values.get("from"),
  );
  const passwords = values.get("passwords");
  const [roles, providers] = [pairs(lists, "role"), pairs(lists, "provider")];
  const realm = values.get("realm");
  const isMisplaced =
    (realm !== undefined && source !== "keycloak") ||
    (passwords !== undefined && source !== "auth0") ||
    (roles.size > 0 && source !== "keycloak") ||
    (providers.size > 0 && source === "ndjson");
  if (isMisplaced)
    throw new UsageError(
      "--passwords is for auth0, --role for keycloak and --realm too, --provider not for ndjson",
    );
  return { path, source, realm, passwords, roles, providers };
}

function pairs(lists: CommandInput["lists"], option: string): Map<string, string> {
  const found = (lists.get(option) ?? []).map((text): [string, string] => {
    const at = text.lastIndexOf("=");
    if (at < 1 || at === text.length - 1)
      throw new UsageError(`--${option} must be two names with a = between`);
    return [text.slice(0, at), text.slice(at + 1)];
  });
  const names = found.map(([name]) => name);
  const again = names.find((name, at) => names.indexOf(name) < at);
  if (again !== undefined) throw new UsageError(`--${option} names ${again} twice`);
  return new Map(found);
}

async function checkFile({ server, file, report, signal, progressOf, tally }: Job): Promise<void> {
  using progress = progressOf("users checked");
  const read = reading(file);
  let rows = 0;
  for await (const batch of packed(read.users)) {
    signal.throwIfAborted();
    const { refusals, warnings } = await patiently(server, server.client.checkRows, {
      rows: batch.map(({ row }) => row),
    });
    const lines = batch.map(({ record }, index) => {
      const refusal = refusals[index];
      if (refusal === undefined) throw noResult(record);
      return tally.add(record, { refusal, warning: warnings[index] });
    });
    await report.writeFile(lines.join(""));
    rows += batch.length;
    progress.showOfFile(rows, read.bytes, read.size);
  }
}

/** @returns the id of the import. */
async function importFile(job: Job): Promise<string> {
  const { server, file, signal } = job;
  const { client } = server;
  const fileSha256 = await digestFile(file, signal);
  await assertReadable(job);
  const { realm } = file;
  const settings = JSON.stringify({ roles: [...file.roles], providers: [...file.providers], realm });
  const begun = await patiently(server, client.beginImport, { fileSha256, source: file.source, settings });
  if (!begun.completed) {
    const rows = await sendRows(job, begun);
    if (!fileSha256.equals(await digestFile(file, signal)))
      throw userFileError(file, "was changed while it was imported");
    await patiently(server, client.completeImport, { importId: begun.importId, rows });
  }
  await reportRows(job, begun.importId);
  return begun.importId;
}

/** So that no import begins for a file of another kind, or for half of one: the whole file would be another import. */
async function assertReadable({ file, signal, progressOf }: Job): Promise<void> {
  using progress = progressOf("users read");
  const read = reading(file);
  let rows = 0;
  for await (const _user of read.users) {
    signal.throwIfAborted();
    rows += 1;
    progress.showOfFile(rows, read.bytes, read.size);
  }
}

/** Sends the rows that are not stored. The service says which one is next. @returns how many the file has. */
async function sendRows(
  { server, file, signal, progressOf }: Job,
  { importId, nextRow: begunAt }: BeginImportResponse,
): Promise<number> {
  using progress = progressOf("users");
  const read = reading(file);
  let nextRow = begunAt;
  let end = 1;
  for await (const batch of packed(read.users)) {
    signal.throwIfAborted();
    const firstRow = end;
    end += batch.length;
    while (nextRow < end) {
      const rows = batch.slice(nextRow - firstRow).map(({ row }) => row);
      ({ nextRow } = await patiently(server, server.client.importRows, {
        importId,
        firstRow: nextRow,
        rows,
      }));
    }
    progress.showOfFile(end - 1, read.bytes, read.size);
  }
  return end - 1;
}

/** Reads the file again, because the service does not know the users' former ids. */
async function reportRows(
  { server, file, report, signal, progressOf, tally }: Job,
  importId: string,
): Promise<void> {
  using progress = progressOf("users reported");
  const read = reading(file);
  let results: { userId: string; refusal: string }[] = [];
  let row = 1;
  let firstOfPage = 1;
  for await (const record of read.users) {
    signal.throwIfAborted();
    if (row === firstOfPage + results.length) {
      const page = await patiently(server, server.client.listImportedRows, { importId, firstRow: row });
      ({ rows: results, firstRow: firstOfPage } = page);
    }
    const result = results[row - firstOfPage];
    if (result === undefined) throw noResult(record);
    await report.writeFile(tally.add(record, result));
    progress.showOfFile(row, read.bytes, read.size);
    row += 1;
  }
}

/** The users, and how much of their file has been taken. */
function reading(file: UserFile): { users: AsyncIterable<UserRow>; bytes: number; size: number } {
  const read = {
    users: readUsers(file, (bytes) => (read.bytes += bytes)),
    bytes: 0,
    size: sizeOf(file.path),
  };
  return read;
}

function noResult({ at }: UserRow): CliError {
  const message = `identity-service does not say what became of the row at ${at}`;
  return new CliError(message, { exitCode: EXIT.failed, code: "internal_error" });
}

interface Packed {
  record: UserRow;
  row: ImportRow;
}

/** In batches that a call may have. A row that is larger than one becomes a refusal. */
async function* packed(users: AsyncIterable<UserRow>): AsyncGenerator<Packed[]> {
  let batch: Packed[] = [];
  let bytes = 0;
  for await (const record of users) {
    let row = rowOf(record);
    let { length } = ImportRow.encode(row).finish();
    if (length > MAX_BATCH_BYTES) {
      row = { row: { $case: "refusal", value: "row_too_long" } };
      ({ length } = ImportRow.encode(row).finish());
    }
    if (batch.length === MAX_BATCH_ROWS || bytes + length > MAX_BATCH_BYTES) {
      yield batch;
      [batch, bytes] = [[], 0];
    }
    batch.push({ record, row });
    bytes += length;
  }
  if (batch.length > 0) yield batch;
}

function rowOf(record: UserRow): ImportRow {
  return "user" in record
    ? { row: { $case: "user", value: record.user } }
    : { row: { $case: "refusal", value: record.refusal } };
}

/** Counts, and writes lines of the report. */
class Tally {
  refused = 0;
  #imported = 0;
  /** How many users get each role, so that nobody overlooks a file that makes administrators. */
  readonly #roles = new Map<string, number>();
  readonly #refusals = new Map<string, number>();
  readonly #leftOut = new Map<string, number>();
  readonly #warnings = new Map<string, number>();

  /** @returns its line. */
  add(record: UserRow, result: { userId?: string; refusal: string; warning?: string | undefined }): string {
    const { at, sourceId: id } = record;
    const { userId, refusal } = result;
    const warning = result.warning || undefined;
    for (const name of record.leftOut) increment(this.#leftOut, name);
    if (refusal === "") {
      this.#imported += 1;
      if ("user" in record && record.user.role !== "") increment(this.#roles, record.user.role);
      if (warning !== undefined) increment(this.#warnings, warning);
      return `${JSON.stringify({ at, id, userId, warning })}\n`;
    }
    this.refused += 1;
    increment(this.#refusals, refusal);
    const field = "refusal" in record ? record.field : undefined;
    return `${JSON.stringify({ at, id, refused: refusal, ...(field !== undefined && { field }) })}\n`;
  }

  text(isCheck: boolean): string {
    const counts = `${isCheck ? "Would import" : "Imported"} ${inEnglish(this.#imported)}, refused ${inEnglish(this.refused)}.`;
    return [
      counts,
      ...listed("Roles", this.#roles),
      ...listed("Refused", this.#refusals),
      ...listed("Left out", this.#leftOut),
      ...listed("Warnings", this.#warnings),
    ].join("\n");
  }

  json() {
    return {
      imported: this.#imported,
      refused: this.refused,
      roles: Object.fromEntries(this.#roles),
      refusals: Object.fromEntries(this.#refusals),
      leftOut: Object.fromEntries(this.#leftOut),
      warnings: Object.fromEntries(this.#warnings),
    };
  }
}

function increment(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}

function listed(what: string, counts: ReadonlyMap<string, number>): string[] {
  if (counts.size === 0) return [];
  const names = [...counts]
    .toSorted(([, a], [, b]) => b - a)
    .map(([name, count]) => `${name} ${inEnglish(count)}`);
  return [`${what}: ${names.join(", ")}`];
}

function inEnglish(count: number): string {
  return count.toLocaleString("en");
}
