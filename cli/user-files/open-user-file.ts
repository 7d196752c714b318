import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { canonicalEmail } from "#kit/values/canonical-email.ts";
import { LineError } from "../audit-verifier/export-line.ts";
import { CliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import { auth0Password, auth0User } from "./auth0-user.ts";
import { findUsersOfRealm, NO_USERS_OF_REALM } from "./keycloak-realms.ts";
import { keycloakUser } from "./keycloak-user.ts";
import { plainUser } from "./plain-user.ts";
import {
  FileProblem,
  type FileRecord,
  type OnRead,
  readArray,
  readCsvRecords,
  readJsonRecords,
} from "./read-records.ts";
import { supabaseUser } from "./supabase-user.ts";
import type { Mapping, UserRecord } from "./user-record.ts";

export const SOURCES = ["keycloak", "auth0", "supabase", "ndjson"] as const;
export type Source = (typeof SOURCES)[number];

export interface UserFile extends Mapping {
  path: string;
  source: Source;
  /** Of Keycloak, if users of several realms are in the file. */
  realm?: string | undefined;
  /** Of Auth0: the export of password hashes. */
  passwords?: string | undefined;
}

/** A user with the place of its record in the file. */
export type UserRow = UserRecord & Pick<FileRecord, "at">;

/** The users of a file, in its order. @throws {CliError} 66. */
export async function* readUsers(file: UserFile, onRead?: OnRead): AsyncGenerator<UserRow> {
  try {
    const hashes =
      file.passwords === undefined ? new Map<string, string>() : await readHashes(file.passwords);
    const seen = { addresses: new Set<string>(), identities: new Set<string>() };
    let isFirst = true;
    for await (const { at, value } of openRecords(file, onRead)) {
      if (isFirst) assertSystem(value, file.source);
      isFirst = false;
      yield { at, ...withoutRepetition(seen, read(file, value, hashes)) };
    }
    if (isFirst) throw new FileProblem(file.source === "keycloak" ? NO_USERS_OF_REALM : "has no users");
  } catch (error) {
    throw unreadable(file, error);
  }
}

/** Members by which records of a system are known. */
const SIGNS: readonly (readonly [member: string, system: string])[] = [
  ["localId", "Firebase"],
  ["encrypted_password", "supabase"],
  ["user_id", "auth0"],
  ["realm", "keycloak"],
  ["username", "keycloak"],
];

/** @throws {FileProblem} for a record of another system. */
function assertSystem(value: unknown, source: Source): void {
  if (typeof value !== "object" || value === null) return;
  const [, system = source] = SIGNS.find(([member]) => Object.hasOwn(value, member)) ?? [];
  if (system === source) return;
  const isKnown = (SOURCES as readonly string[]).includes(system);
  const advice = isKnown ? `use --from ${system}` : "make lines of JSON of it (docs/migrate/README.md)";
  throw new FileProblem(`has users of ${system}, not of ${source}: ${advice}`);
}

/** A parser's message may have a part of the file: only codes are reported. */
function unreadable(file: UserFile, error: unknown): CliError {
  if (error instanceof FileProblem) return userFileError(file, error.message);
  if (error instanceof LineError) return userFileError(file, `has a line that ${error.message}`);
  const { code } = error as NodeJS.ErrnoException;
  return userFileError(file, `cannot be read as a file of ${file.source} (${code ?? "not valid JSON"})`);
}

export function userFileError({ path, passwords }: UserFile, problem: string): CliError {
  const names = passwords === undefined ? path : `${path} or ${passwords}`;
  return new CliError(`${names} ${problem}`, { exitCode: EXIT.input, code: "user_file_invalid" });
}

async function* openRecords({ path, source, realm }: UserFile, onRead?: OnRead): AsyncGenerator<FileRecord> {
  if (source === "keycloak")
    return yield* readArray(path, { member: await findUsersOfRealm(path, realm), onRead });
  const isCsv = source === "supabase" && path.endsWith(".csv");
  yield* isCsv ? readCsvRecords(path, ["id", "email"], onRead) : readJsonRecords(path, onRead);
}

function read(file: UserFile, value: unknown, hashes: ReadonlyMap<string, string>): UserRecord {
  switch (file.source) {
    case "keycloak":
      return keycloakUser(value, file);
    case "auth0":
      return auth0User(value, file, hashes);
    case "supabase":
      return supabaseUser(value, file);
    case "ndjson":
      return plainUser(value);
  }
}

type Seen = Readonly<Record<"addresses" | "identities", Set<string>>>;

/** The service would say that the address or the identity is taken, and a check, which sees a hundred rows, would not know. */
function withoutRepetition(seen: Seen, record: UserRecord): UserRecord {
  if (!("user" in record)) return record;
  const { sourceId, leftOut, user } = record;
  const email = canonicalEmail(user.email) ?? "";
  const identities = user.identities.map(({ provider, subject }) => JSON.stringify([provider, subject]));
  if (seen.addresses.has(email)) return { sourceId, leftOut, refusal: "address_repeated" };
  if (identities.some((identity) => seen.identities.has(identity)))
    return { sourceId, leftOut, refusal: "identity_repeated" };
  if (email !== "") seen.addresses.add(email);
  for (const identity of identities) seen.identities.add(identity);
  return record;
}

async function readHashes(path: string): Promise<Map<string, string>> {
  const hashes = new Map<string, string>();
  for await (const { at, value } of readJsonRecords(path)) {
    if (value === undefined) throw new FileProblem(`has no JSON in line ${at} of the hashes`);
    const found = auth0Password(value);
    if (found !== undefined) hashes.set(found.sourceId, found.hash);
  }
  if (hashes.size === 0) throw new FileProblem("has no hash of a password, for which --passwords is");
  return hashes;
}

/** SHA-256 of the file, or of both files one after the other. @throws {CliError} 66; the reason of the signal. */
export async function digestFile(file: UserFile, signal: AbortSignal): Promise<Buffer> {
  const { path, passwords } = file;
  const digest = createHash("sha256");
  try {
    for (const name of passwords === undefined ? [path] : [path, passwords]) {
      for await (const chunk of createReadStream(name, { signal })) digest.update(chunk as Buffer);
    }
  } catch (error) {
    signal.throwIfAborted();
    throw unreadable(file, error);
  }
  return digest.digest();
}
