import { canonicalEmail } from "#kit/values/canonical-email.ts";
import { DomainError } from "#kit/values/errors.ts";
import { reportedNames } from "../users/personal-name.ts";
import type { ProviderSettings } from "./oauth-provider-settings.ts";

export interface ExternalPerson {
  /** Unique within the issuer. */
  subject: string;
  /** Canonical form. Undefined if missing or invalid. */
  email: string | undefined;
  isEmailVerified: boolean;
  firstName: string;
  lastName: string;
}

const MAX_SUBJECT_BYTES = 255;

/** OpenID Connect Core §2, §5.1. @throws as `externalPerson`. */
export function personOfClaims(
  claims: Readonly<Record<string, unknown>>,
  subject: string,
  { claims: names, takesBooleanText }: Pick<ProviderSettings, "claims" | "takesBooleanText">,
): ExternalPerson {
  const email = textIn(claims, names.email);
  const verified = claims[names.emailVerified];
  return externalPerson({
    subject,
    email,
    isEmailVerified: verified === true || (takesBooleanText && verified === "true"),
    firstName: textIn(claims, names.firstName),
    lastName: textIn(claims, names.lastName),
    name: textIn(claims, "name"),
  });
}

/** @throws {DomainError} `oauth_failed` for an invalid subject. */
export function externalPerson(reported: {
  subject: string;
  email: string;
  isEmailVerified: boolean;
  firstName: string;
  lastName: string;
  /** Says what the other names do not. */
  name: string;
}): ExternalPerson {
  const { subject } = reported;
  const bytes = Buffer.byteLength(subject);
  if (bytes === 0 || bytes > MAX_SUBJECT_BYTES || /\p{Cc}/u.test(subject) || !subject.isWellFormed()) {
    throw new DomainError("oauth_failed", "the subject is invalid");
  }
  const email = canonicalEmail(reported.email);
  return {
    subject,
    email,
    isEmailVerified: email !== undefined && reported.isEmailVerified,
    ...reportedNames({ ...reported, email }),
  };
}

function textIn(claims: Readonly<Record<string, unknown>>, name: string): string {
  const value = Object.hasOwn(claims, name) ? claims[name] : undefined;
  return typeof value === "string" ? value : "";
}
