import { z } from "zod";
import { base32Bytes } from "./keycloak-user.ts";
import {
  jsonText,
  type Mapping,
  mappedIdentities,
  NO_USER,
  optional,
  readRecord,
  subject,
  text,
  type UserRecord,
} from "./user-record.ts";

/** PostgreSQL writes `t` and `f` in CSV. */
const flag = optional(z.union([z.boolean(), z.enum(["t", "true", "f", "false"])])).transform(
  (value) => value === true || value === "t" || value === "true",
);

/** What PostgreSQL and clients of SQL write for a `timestamptz`, as RFC 3339. Without a zone it is UTC. */
function asRfc3339(written: string): string {
  const [, day, time, zone = ""] = /^(\S{10})[ T](\S+?) ?(Z|[+-]\d\d(?::?\d\d)?)?$/.exec(written) ?? [];
  const digits = zone.replaceAll(/[^\d]/g, "").padEnd(4, "0");
  const offset = zone === "" || zone === "Z" ? "Z" : `${zone[0]}${digits.slice(0, 2)}:${digits.slice(2)}`;
  return `${day}T${time}${offset}`;
}

/** Milliseconds since the epoch. Undefined: no value. Systems write the epoch, and years before it, for no time. */
const time = optional(
  z
    .string()
    .transform(asRfc3339)
    .pipe(z.iso.datetime({ offset: true }))
    .transform(Date.parse)
    .pipe(z.number().positive()),
).transform((value) => value ?? undefined);

const END_OF_TIME = Number.POSITIVE_INFINITY;
const endOrTime = z.union([z.literal("infinity").transform(() => END_OF_TIME), time]);

/** Clocks differ. */
const MAX_AHEAD_MS = 24 * 3_600_000;
const pastTime = time.refine((value) => value === undefined || value <= Date.now() + MAX_AHEAD_MS);

/** A value of JSON, or its text in CSV. */
function json<S extends z.ZodType>(schema: S) {
  return optional(z.union([jsonText(schema), schema]));
}

const schema = z.looseObject({
  id: text,
  email: text,
  encrypted_password: text,
  email_confirmed_at: pastTime,
  banned_until: endOrTime,
  deleted_at: time,
  is_anonymous: flag,
  is_sso_user: flag,
  raw_user_meta_data: json(z.record(z.string(), z.unknown())),
  identities: json(z.array(z.looseObject({ provider: z.string(), provider_id: subject }))),
  factors: json(z.array(z.looseObject({ factor_type: z.string(), secret: text }))),
});

/** Of Supabase itself, whose identities are the address and the number. */
const OWN_PROVIDERS = ["email", "phone"];

/** A row of `auth.users`, with columns `identities` and `factors` from other tables. */
export function supabaseUser(value: unknown, mapping: Mapping): UserRecord {
  return readRecord(value, schema, (given) => {
    const { id: sourceId, email } = given;
    const external = (given.identities ?? []).filter(({ provider }) => !OWN_PROVIDERS.includes(provider));
    const { identities, leftOut } = mappedIdentities(
      external.map(({ provider, provider_id }) => ({ provider, subject: provider_id })),
      mapping,
    );
    // A user without factors has null there; an export that left the column out has nothing.
    if (given.factors === undefined) leftOut.push("factors, which the file does not have");
    const refuse = (refusal: string) => ({ sourceId, leftOut, refusal });
    if (given.deleted_at !== undefined) return refuse("deleted");
    if (given.is_anonymous) return refuse("anonymous");
    if (given.is_sso_user) return refuse("sso_user");
    const totpSecret = readFactors(given.factors ?? []);
    if (typeof totpSecret === "string") return refuse(totpSecret);
    const names = given.raw_user_meta_data ?? {};
    const user = {
      ...NO_USER,
      email,
      emailVerified: given.email_confirmed_at !== undefined,
      firstName: nameIn(names, "first_name", "given_name"),
      lastName: nameIn(names, "last_name", "family_name"),
      name: nameIn(names, "full_name", "name"),
      passwordHash: given.encrypted_password,
      disabled: given.banned_until !== undefined && given.banned_until > Date.now(),
      identities,
      totpSecret,
    };
    return { sourceId, leftOut, user };
  });
}

/** A key, or why the user is refused. */
function readFactors(factors: readonly { factor_type: string; secret: string }[]): Uint8Array | string {
  if (factors.some(({ factor_type }) => factor_type !== "totp")) return "second_factor_unsupported";
  const [factor, ...others] = factors;
  if (others.length > 0) return "several_totp";
  return factor === undefined ? new Uint8Array(0) : (base32Bytes(factor.secret) ?? "totp_unsupported");
}

function nameIn(names: Readonly<Record<string, unknown>>, ...keys: string[]): string {
  return keys.map((key) => text.safeParse(names[key]).data ?? "").find((name) => name !== "") ?? "";
}
