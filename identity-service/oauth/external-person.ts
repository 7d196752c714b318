import { canonicalEmail, localPartOf } from "../../service-kit/canonical-email.ts";
import { DomainError } from "../../service-kit/errors.ts";
import { MAX_NAME_CODE_POINTS, personalName } from "../users/personal-name.ts";
import type { ProviderSettings } from "./oauth-provider-settings.ts";

/** Who a provider says that a user is. */
export interface ExternalPerson {
  /** With the issuer, the key of the account there. */
  subject: string;
  /** Canonical; undefined if the provider tells none, or none that we could store. */
  email: string | undefined;
  /** Whether the provider has checked that the address is the user's. */
  isEmailVerified: boolean;
  firstName: string;
  lastName: string;
}

const MAX_SUBJECT_BYTES = 255;
/** For a person of whom no family name is known: the column wants one, and its owner can change it. */
const NO_NAME = "-";

/**
 * Reads a person out of the claims of an ID token and the userinfo endpoint.
 *
 * @throws {DomainError} `oauth_failed` for a subject that cannot be one.
 * @see OpenID Connect Core §2 for `sub`, §5.1 for the others.
 */
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

/** @throws {DomainError} `oauth_failed` for a subject that cannot be one. */
export function externalPerson(told: {
  subject: string;
  email: string;
  isEmailVerified: boolean;
  firstName: string;
  lastName: string;
  /** Taken apart where the others are empty. */
  name: string;
}): ExternalPerson {
  const { subject } = told;
  const bytes = Buffer.byteLength(subject);
  if (bytes === 0 || bytes > MAX_SUBJECT_BYTES || /\p{Cc}/u.test(subject) || !subject.isWellFormed()) {
    throw new DomainError("oauth_failed", "the subject cannot be one");
  }
  const email = canonicalEmail(told.email);
  const [first = "", ...rest] = told.name.trim().split(/\s+/);
  return {
    subject,
    email,
    isEmailVerified: email !== undefined && told.isEmailVerified,
    firstName: nameOf(
      "firstName",
      told.firstName || first || (email === undefined ? "" : localPartOf(email)),
    ),
    lastName: nameOf("lastName", told.lastName || rest.join(" ")),
  };
}

function nameOf(field: "firstName" | "lastName", told: string): string {
  const short = [...told.normalize("NFC").trim()].slice(0, MAX_NAME_CODE_POINTS).join("");
  return personalName(field, short).name ?? NO_NAME;
}

function textIn(claims: Readonly<Record<string, unknown>>, name: string): string {
  const value = Object.hasOwn(claims, name) ? claims[name] : undefined;
  return typeof value === "string" ? value : "";
}
