import { z } from "zod";
import { base32Bytes } from "./keycloak-user.ts";
import {
  jsonText,
  type Mapping,
  mappedIdentities,
  NO_USER,
  readRecord,
  text,
  type UserRecord,
} from "./user-record.ts";

/** PostgreSQL writes `t` and `f` in CSV. */
const flag = z
  .union([z.boolean(), z.enum(["t", "true", "f", "false", ""])])
  .nullish()
  .transform((value) => value === true || value === "t" || value === "true");

/** A value of JSON, or its text in CSV. */
function json<S extends z.ZodType>(schema: S) {
  return z.union([jsonText(schema), schema]);
}

const schema = z.looseObject({
  id: z.string(),
  email: text,
  encrypted_password: text,
  email_confirmed_at: text,
  banned_until: text,
  deleted_at: text,
  is_anonymous: flag,
  is_sso_user: flag,
  raw_user_meta_data: json(z.record(z.string(), z.unknown()).nullish()),
  identities: json(z.array(z.looseObject({ provider: z.string(), provider_id: z.string() })).nullish()),
  factors: json(z.array(z.looseObject({ factor_type: z.string(), secret: text })).nullish()),
});

/** Of Supabase itself, whose identities are the address and the number. */
const OWN_PROVIDERS = ["email", "phone"];

/** A row of `auth.users`, with columns `identities` and `factors` from other tables. */
export function supabaseUser(value: unknown, mapping: Mapping): UserRecord {
  return readRecord(value, schema, (told) => {
    const { id: sourceId, email } = told;
    const external = (told.identities ?? []).filter(({ provider }) => !OWN_PROVIDERS.includes(provider));
    const { identities, leftOut } = mappedIdentities(
      external.map(({ provider, provider_id: subject }) => ({ provider, subject })),
      mapping,
    );
    const refuse = (refusal: string) => ({ sourceId, leftOut, refusal });
    if (told.deleted_at !== "") return refuse("deleted");
    if (told.is_anonymous) return refuse("anonymous");
    if (told.is_sso_user) return refuse("sso_user");
    const totpSecret = readFactors(told.factors ?? []);
    if (typeof totpSecret === "string") return refuse(totpSecret);
    const names = told.raw_user_meta_data ?? {};
    const user = {
      ...NO_USER,
      email,
      emailVerified: told.email_confirmed_at !== "",
      firstName: nameIn(names, "first_name", "given_name"),
      lastName: nameIn(names, "last_name", "family_name"),
      name: nameIn(names, "full_name", "name"),
      passwordHash: told.encrypted_password,
      disabled: told.banned_until !== "" && !(Date.parse(told.banned_until) <= Date.now()),
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
  const found = keys.map((key) => names[key]).find((name) => typeof name === "string" && name !== "");
  return typeof found === "string" ? found : "";
}
