import type { AccessRules } from "#access-file/access-rules.ts";
import type { Sql } from "#kit/database/postgres.ts";
import { isRoleName } from "#kit/values/access-names.ts";
import { canonicalEmail, isLookAlike } from "#kit/values/canonical-email.ts";
import { languageTag } from "#kit/values/locale.ts";
import type { RecordAuditDeps } from "../audit/record-audit.ts";
import { TOTP_SECRET_BYTES } from "../mfa/totp.ts";
import type { MfaKeys } from "../mfa/totp-secret.ts";
import { parseForeignHash } from "../passwords/foreign-hash.ts";
import { readStoredHash } from "../passwords/stored-hash.ts";
import { reportedNames } from "../users/personal-name.ts";
import type { ImportedAccount } from "../users/user-store.ts";

export interface ImportsDeps extends RecordAuditDeps {
  sql: Sql;
  smtpUtf8: boolean;
  access: Pick<AccessRules, "defaultRole" | "isDefined">;
  mfaKeys: MfaKeys;
  /** By the provider's name. */
  relyingParties: Pick<ReadonlyMap<string, { issuer: string }>, "get">;
  /** No imported hash may take more, because the process has this much for each. */
  hashMemoryKib: number;
}

/** A user as another system reports it. */
export interface ReportedUser {
  email: string;
  emailVerified: boolean;
  firstName: string;
  lastName: string;
  name: string;
  /** Empty: none. Never logged. */
  passwordHash: string;
  /** Empty: the default. */
  role: string;
  disabled: boolean;
  mustChangePassword: boolean;
  identities: readonly { provider: string; subject: string }[];
  /** Empty: none. Never logged. */
  totpSecret: Uint8Array;
  /** BCP 47. Another text counts as none. */
  language: string;
}

export interface NewUser {
  account: ImportedAccount;
  identities: readonly { provider: string; subject: string; issuer: string }[];
  totpSecret: Buffer | undefined;
}

/** A user, or why there is none. */
export type Judged = NewUser | string;

const MAX_IDENTITIES = 8;
/** OpenID Connect Core §2. */
const MAX_SUBJECT_BYTES = 255;

/** All that can be said without the database. */
export function judgeRow(
  deps: Pick<ImportsDeps, "access" | "relyingParties" | "hashMemoryKib" | "newId" | "now">,
  reported: ReportedUser,
): Judged {
  const email = canonicalEmail(reported.email);
  if (email === undefined || isLookAlike(email)) return "email_invalid";
  const role = reported.role || deps.access.defaultRole;
  if (!isRoleName(role) || !deps.access.isDefined(role)) return "role_not_defined";
  const hash = readHash(deps, reported.passwordHash);
  if ("problem" in hash) return hash.problem;
  const identities = readIdentities(deps, reported.identities);
  if ("problem" in identities) return identities.problem;
  const { length } = reported.totpSecret;
  if (length !== 0 && length !== TOTP_SECRET_BYTES) return "totp_unsupported";
  const { emailVerified, mustChangePassword } = reported;
  return {
    account: {
      id: deps.newId(),
      email,
      emailVerified,
      ...reportedNames({ ...reported, email }),
      language: languageTag(reported.language) ?? null,
      role,
      status: reported.disabled ? "disabled" : "active",
      passwordHash: hash.text,
      mustChangePassword: mustChangePassword && hash.text !== null,
      // As docs/decisions/passwords.md: otherwise the first reset or login at a provider would take a factor or identity away.
      areCredentialsProven: emailVerified && (length > 0 || identities.found.length > 0),
      createdAt: deps.now(),
    },
    identities: identities.found,
    totpSecret: length === 0 ? undefined : Buffer.from(reported.totpSecret),
  };
}

function readHash(
  { hashMemoryKib }: Pick<ImportsDeps, "hashMemoryKib">,
  text: string,
): { text: string | null } | { problem: string } {
  if (text === "") return { text: null };
  const own = readStoredHash(text);
  // Another Gatehouse's pepper is not here.
  if (own?.pepperId !== undefined) return { problem: "hash_format_unknown" };
  const hash = own === undefined ? parseForeignHash(text) : { text, memoryKib: own.memoryKib };
  if (typeof hash === "string") return { problem: hash };
  return hash.memoryKib > hashMemoryKib ? { problem: "hash_memory_too_high" } : { text: hash.text };
}

function readIdentities(
  { relyingParties }: Pick<ImportsDeps, "relyingParties">,
  reported: ReportedUser["identities"],
): { found: NewUser["identities"] } | { problem: string } {
  if (reported.length > MAX_IDENTITIES) return { problem: "too_many_identities" };
  if (new Set(reported.map(({ provider }) => provider)).size < reported.length) {
    return { problem: "provider_repeated" };
  }
  const found: { provider: string; subject: string; issuer: string }[] = [];
  for (const { provider, subject } of reported) {
    const issuer = relyingParties.get(provider)?.issuer;
    if (issuer === undefined) return { problem: "provider_unknown" };
    const bytes = Buffer.byteLength(subject);
    if (bytes === 0 || bytes > MAX_SUBJECT_BYTES || /\p{Cc}/u.test(subject)) {
      return { problem: "subject_invalid" };
    }
    // Two providers can have one issuer.
    if (found.some((other) => other.issuer === issuer && other.subject === subject)) {
      return { problem: "identity_repeated" };
    }
    found.push({ provider, subject, issuer });
  }
  return { found };
}
