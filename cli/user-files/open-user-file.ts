import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { canonicalEmail } from "../../service-kit/canonical-email.ts";
import { CliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import { auth0Password, auth0User } from "./auth0-user.ts";
import { keycloakUser } from "./keycloak-user.ts";
import { plainUser } from "./plain-user.ts";
import { type FileRecord, readArray, readCsvRecords, readJsonRecords } from "./read-records.ts";
import { supabaseUser } from "./supabase-user.ts";
import type { Mapping, UserRecord } from "./user-record.ts";

export const SOURCES = ["keycloak", "auth0", "supabase", "ndjson"] as const;
export type Source = (typeof SOURCES)[number];

export interface UserFile extends Mapping {
  path: string;
  source: Source;
  /** Of Auth0: the export of password hashes. */
  passwords?: string | undefined;
}

/** A user with the place of its record in the file. */
export type UserRow = UserRecord & Pick<FileRecord, "at">;

/** The users of a file, in its order. @throws {CliError} 66. */
export async function* readUsers(file: UserFile): AsyncGenerator<UserRow> {
  try {
    const hashes =
      file.passwords === undefined ? new Map<string, string>() : await readHashes(file.passwords);
    const addresses = new Set<string>();
    for await (const { at, value } of openRecords(file)) {
      yield { at, ...withoutRepetition(addresses, read(file, value, hashes)) };
    }
  } catch (error) {
    throw unreadable(file, error);
  }
}

/** A parser's message may have a part of the file: only codes and names are told. */
function unreadable(file: UserFile, error: unknown): CliError {
  const { code, name } = error as NodeJS.ErrnoException;
  return userFileError(file, `cannot be read as a file of ${file.source} (${code ?? name})`);
}

export function userFileError({ path, passwords }: UserFile, problem: string): CliError {
  const names = passwords === undefined ? path : `${path} or ${passwords}`;
  return new CliError(`${names} ${problem}`, { exitCode: EXIT.input, code: "user_file_invalid" });
}

function openRecords({ path, source }: UserFile): AsyncGenerator<FileRecord> {
  if (source === "keycloak") return readArray(path, "users");
  return source === "supabase" && path.endsWith(".csv") ? readCsvRecords(path) : readJsonRecords(path);
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

/** The service would say that the address is taken, and a check would not know. */
function withoutRepetition(addresses: Set<string>, record: UserRecord): UserRecord {
  if (!("user" in record)) return record;
  const email = canonicalEmail(record.user.email);
  if (email === undefined || !addresses.has(email)) {
    if (email !== undefined) addresses.add(email);
    return record;
  }
  const { sourceId, leftOut } = record;
  return { sourceId, leftOut, refusal: "address_repeated" };
}

async function readHashes(path: string): Promise<Map<string, string>> {
  const hashes = new Map<string, string>();
  for await (const { value } of readJsonRecords(path)) {
    const found = auth0Password(value);
    if (found !== undefined) hashes.set(found.sourceId, found.hash);
  }
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
