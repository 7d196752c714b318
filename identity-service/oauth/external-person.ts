import * as oidc from "openid-client";
import { z } from "zod";
import { canonicalEmail, isLookAlike } from "#kit/values/canonical-email.ts";
import { DomainError } from "#kit/values/errors.ts";
import { languageTag } from "#kit/values/locale.ts";
import { reportedNames } from "../users/personal-name.ts";
import type { ProviderSettings } from "./oauth-provider-settings.ts";

export interface ExternalPerson {
  /** Unique within the issuer. */
  subject: string;
  /** Canonical form. Undefined if missing, invalid or a look-alike, as at a registration. */
  email: string | undefined;
  isEmailVerified: boolean;
  firstName: string;
  lastName: string;
  /** BCP 47. Undefined if missing or invalid. */
  language: string | undefined;
  /** When they logged in there, by the provider's clock. Undefined if it does not say. */
  authTime?: Date | undefined;
}

const MAX_SUBJECT_BYTES = 255;

/** A provider that still knows a person lets them in without a question: then they logged in earlier. A time ahead of `now` counts as now. */
export function loggedInAt({ authTime }: ExternalPerson, now: Date): Date {
  return authTime !== undefined && authTime < now ? authTime : now;
}

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
    // Some write `en_US`.
    locale: textIn(claims, "locale").replaceAll("_", "-"),
  });
}

/** @throws {DomainError} `oauth_failed` for an invalid subject. */
function externalPerson(reported: {
  subject: string;
  email: string;
  isEmailVerified: boolean;
  firstName: string;
  lastName: string;
  /** Says what the other names do not. */
  name: string;
  locale: string;
}): ExternalPerson {
  const { subject } = reported;
  const bytes = Buffer.byteLength(subject);
  if (bytes === 0 || bytes > MAX_SUBJECT_BYTES || /\p{Cc}/u.test(subject) || !subject.isWellFormed()) {
    throw new DomainError("oauth_failed", "the subject is invalid");
  }
  const written = canonicalEmail(reported.email);
  const email = written !== undefined && isLookAlike(written) ? undefined : written;
  return {
    subject,
    email,
    isEmailVerified: email !== undefined && reported.isEmailVerified,
    ...reportedNames({ ...reported, email }),
    language: languageTag(reported.locale),
  };
}

function textIn(claims: Readonly<Record<string, unknown>>, name: string): string {
  const value = Object.hasOwn(claims, name) ? claims[name] : undefined;
  return typeof value === "string" ? value : "";
}

const HEADERS = { accept: "application/vnd.github+json", "x-github-api-version": "2022-11-28" };

const user = z.object({ id: z.int().positive(), name: z.string().nullish() });
const emails = z.array(z.object({ email: z.string(), primary: z.boolean(), verified: z.boolean() }));

/** The numeric id is the subject, because login names change owners. @throws {DomainError} `oauth_failed`. */
export async function githubPerson(
  configuration: oidc.Configuration,
  accessToken: string,
  userUrl: string,
): Promise<ExternalPerson> {
  const read = async <S extends z.ZodType>(url: string, schema: S): Promise<z.output<S>> => {
    const response = await oidc.fetchProtectedResource(
      configuration,
      accessToken,
      new URL(url),
      "GET",
      undefined,
      new Headers(HEADERS),
    );
    const result = schema.safeParse(response.ok ? await response.json() : undefined);
    if (!result.success) throw new DomainError("oauth_failed", "the API sent an unexpected answer");
    return result.data;
  };
  const { id, name } = await read(userUrl, user);
  const primary = (await read(`${userUrl}/emails`, emails)).find((address) => address.primary);
  return externalPerson({
    subject: String(id),
    email: primary?.email ?? "",
    isEmailVerified: primary?.verified === true,
    firstName: "",
    lastName: "",
    name: name ?? "",
    locale: "",
  });
}
