import { z } from "zod";
import {
  flag,
  type Mapping,
  mappedIdentities,
  NO_USER,
  optional,
  readRecord,
  subject,
  text,
  type UserRecord,
} from "./user-record.ts";

const identifier = z.looseObject({
  type: z.string(),
  value: text,
  verified: flag,
});

const schema = z.looseObject({
  user_id: text,
  _id: z.looseObject({ $oid: z.string() }).optional(),
  alt_id: text,
  email: text,
  email_verified: optional(z.boolean()),
  identifiers: optional(z.array(identifier)),
  given_name: text,
  family_name: text,
  name: text,
  blocked: flag,
  identities: optional(
    z.array(z.looseObject({ provider: z.string(), user_id: z.union([subject, z.int().positive()]) })),
  ),
  passwordHash: text,
  password_hash: text,
  custom_password_hash: z
    .looseObject({
      hash: z.looseObject({ value: text }),
      password: z.looseObject({ encoding: text }).nullish(),
    })
    .nullish(),
  /** Of the file for bulk imports. */
  mfa_factors: z.array(z.unknown()).nullish(),
  /** Of a user's profile: names of second factors. */
  multifactor: z.array(z.unknown()).nullish(),
});
type Auth0User = z.infer<typeof schema>;

/** Of the database of Auth0, whose identity is the password. */
const OWN_PROVIDER = "auth0";

/** How a password became bytes before it was hashed, as it does here. A hash of others could never be verified. */
const TYPED_AS = ["", "utf8", "ascii"];

/**
 * A user of a bulk export, of the file for bulk imports, or of the export of password hashes.
 * @param hashes by user id, of the export of password hashes.
 */
export function auth0User(value: unknown, mapping: Mapping, hashes: ReadonlyMap<string, string>): UserRecord {
  return readRecord(value, schema, (given) => {
    const sourceId = idOf(given);
    const factors = [...(given.mfa_factors ?? []), ...(given.multifactor ?? [])];
    if (factors.length > 0) return { sourceId, leftOut: [], refusal: "second_factor_unsupported" };
    if (!TYPED_AS.includes(given.custom_password_hash?.password?.encoding ?? ""))
      return { sourceId, leftOut: [], refusal: "hash_format_unknown" };
    const address = given.identifiers?.find(({ type }) => type === "email");
    const email = given.email || (address?.value ?? "");
    const isVerified = address !== undefined && address.value === email && address.verified;
    const name = given.name === given.email ? "" : given.name;
    const { identities, leftOut } = mappedIdentities(
      (given.identities ?? [])
        .filter(({ provider }) => provider !== OWN_PROVIDER)
        .map(({ provider, user_id }) => ({ provider, subject: String(user_id) })),
      mapping,
    );
    const passwordHash = hashIn(given) || (hashes.get(sourceId) ?? "");
    const isHashMissing = hashes.size > 0 && passwordHash === "" && sourceId.startsWith(`${OWN_PROVIDER}|`);
    if (isHashMissing) leftOut.push("password without a hash");
    const user = {
      ...NO_USER,
      email,
      emailVerified: given.email_verified ?? isVerified,
      firstName: given.given_name,
      lastName: given.family_name,
      name,
      passwordHash,
      disabled: given.blocked,
      identities,
    };
    return { sourceId, leftOut, user };
  });
}

/** Of a row of the export of password hashes. Undefined for any other row. */
export function auth0Password(value: unknown): { sourceId: string; hash: string } | undefined {
  const { data } = schema.safeParse(value);
  if (data === undefined || data.passwordHash === "" || data._id === undefined) return undefined;
  return { sourceId: idOf(data), hash: data.passwordHash };
}

function hashIn(given: Auth0User): string {
  return given.passwordHash || given.password_hash || (given.custom_password_hash?.hash.value ?? "");
}

/** @see https://support.auth0.com/center/s/article/How-to-Use-the-Password-Hashes-Export-from-Auth0 for `alt_id`. */
function idOf({ user_id, _id, alt_id }: Auth0User): string {
  if (user_id !== "") return user_id;
  return _id === undefined ? "" : `${OWN_PROVIDER}|${alt_id || _id.$oid}`;
}
