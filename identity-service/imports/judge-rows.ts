import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import { isAsciiMailbox } from "#kit/values/canonical-email.ts";
import { DomainError } from "#kit/values/errors.ts";
import { findLinkedIdentities } from "../identities/external-identity-store.ts";
import { findTakenAddresses } from "../users/user-store.ts";
import { type ImportsDeps, type Judged, judgeRow, type NewUser, type ReportedUser } from "./judge-row.ts";

/** A user, or why the program that reads the file refuses the row. */
export type ImportRow = ReportedUser | string;

const MAX_ROWS = 100;
const REFUSAL = /^[a-z_]{1,64}$/;

/** @throws {DomainError} `validation_failed`. */
export function judgeRows(deps: ImportsDeps, rows: readonly ImportRow[]): Judged[] {
  if (rows.length === 0 || rows.length > MAX_ROWS) throw refused(`must have 1 to ${MAX_ROWS} rows`);
  if (rows.some((row) => typeof row === "string" && !REFUSAL.test(row))) {
    throw refused("has a reason that is no word");
  }
  return rows.map((row) => (typeof row === "string" ? row : judgeRow(deps, row)));
}

/** Why each row would be refused now, or needs a look. Empty: it would not. @throws {DomainError} `validation_failed`. */
export async function checkRows(
  deps: ImportsDeps,
  rows: readonly ImportRow[],
): Promise<{ refusals: string[]; warnings: string[] }> {
  const settled = await refuseTaken(deps.sql, judgeRows(deps, rows), deps.now());
  const isUnmailable = (user: Judged) =>
    typeof user !== "string" && !deps.smtpUtf8 && !isAsciiMailbox(user.account.email);
  return {
    refusals: settled.map((user) => (typeof user === "string" ? user : "")),
    warnings: settled.map((user) => (isUnmailable(user) ? "email_needs_smtputf8" : "")),
  };
}

/** Refuses addresses and identities that somebody has, an earlier row included. */
export async function refuseTaken(
  sql: Sql | TransactionSql,
  judged: readonly Judged[],
  now: Date,
): Promise<Judged[]> {
  const users = newUsers(judged);
  const emails = await findTakenAddresses(
    sql,
    users.map(({ account }) => account.email),
    now,
  );
  const linked = await findLinkedIdentities(
    sql,
    users.flatMap(({ identities }) => identities),
  );
  const identities = new Set(linked.map(keyOf));
  return judged.map((user) => {
    if (typeof user === "string") return user;
    const { email } = user.account;
    const keys = user.identities.map(keyOf);
    if (emails.has(email)) return "address_taken";
    if (keys.some((key) => identities.has(key))) return "identity_taken";
    emails.add(email);
    for (const key of keys) identities.add(key);
    return user;
  });
}

export function newUsers(judged: readonly Judged[]): NewUser[] {
  return judged.filter((user) => typeof user !== "string");
}

function keyOf({ issuer, subject }: { issuer: string; subject: string }): string {
  return JSON.stringify([issuer, subject]);
}

function refused(message: string): DomainError {
  return new DomainError("validation_failed", undefined, {
    fields: [{ field: "rows", code: "invalid_format", message }],
  });
}
