import { base32nopad } from "@scure/base";
import { z } from "zod";
import type { ImportedUser } from "#proto/gatehouse/identity/v1/user_import_service.ts";
import {
  flag,
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

/** Since Keycloak 12 secret and cost are JSON as text; before, they are members. `value` is a password in plain text. */
const credential = z.looseObject({
  type: z.string(),
  secretData: text,
  credentialData: text,
  value: text,
  hashedSaltedValue: text,
});
type Credential = z.infer<typeof credential>;

const list = <S extends z.ZodType>(schema: S) =>
  optional(z.array(schema)).transform((value): z.output<S>[] => value ?? []);

const schema = z.looseObject({
  id: text,
  email: text,
  emailVerified: flag,
  firstName: text,
  lastName: text,
  enabled: z.boolean().default(true),
  serviceAccountClientId: text,
  credentials: list(credential),
  requiredActions: list(z.string()),
  federatedIdentities: list(z.looseObject({ identityProvider: z.string(), userId: subject })),
  realmRoles: list(z.string()),
});

const hashSchema = z.looseObject({ value: z.string(), salt: text });
const costSchema = z.looseObject({
  hashIterations: z.int().positive(),
  algorithm: z.string(),
  additionalParameters: z.record(z.string(), z.array(z.string())).default({}),
});
const oldPassword = z
  .looseObject({
    hashedSaltedValue: z.string(),
    salt: z.string(),
    hashIterations: z.int().positive(),
    algorithm: z.enum(["pbkdf2", "pbkdf2-sha256", "pbkdf2-sha512"]),
  })
  .transform(({ hashedSaltedValue: value, ...others }) => ({ ...others, value, additionalParameters: {} }));
const totpSchema = z.looseObject({
  subType: z.literal("totp"),
  digits: z.literal(6),
  period: z.literal(30),
  algorithm: z.literal("HmacSHA1"),
  secretEncoding: z.literal("BASE32").nullish(),
});

/** Every user has them. */
const BUILT_IN_ROLE = /^(?:default-roles-.*|offline_access|uma_authorization)$/;
/** Ways to log in and codes that are not needed to. */
const DISPENSABLE = ["webauthn-passwordless", "recovery-authn-codes", "password-history"];

/**
 * A user of a realm export of Keycloak.
 * @see https://www.keycloak.org/docs-api/latest/rest-api/#UserRepresentation
 */
export function keycloakUser(value: unknown, mapping: Mapping): UserRecord {
  return readRecord(value, schema, (given) => {
    const { id: sourceId, email, emailVerified, firstName, lastName } = given;
    const credentials = given.credentials.map(asNow);
    const { identities, leftOut } = mappedIdentities(
      given.federatedIdentities.map(({ identityProvider: provider, userId }) => ({
        provider,
        subject: userId,
      })),
      mapping,
    );
    const others = credentials.filter(({ type }) => DISPENSABLE.includes(type));
    const roles = given.realmRoles.filter((role) => !mapping.roles.has(role) && !BUILT_IN_ROLE.test(role));
    leftOut.push(...others.map(({ type }) => `credential ${type}`), ...roles.map((role) => `role ${role}`));
    if (given.serviceAccountClientId !== "") return { sourceId, leftOut, refusal: "service_account" };
    const secrets = readCredentials(credentials);
    if ("refusal" in secrets) return { sourceId, leftOut, refusal: secrets.refusal };
    const role = [...mapping.roles].find(([name]) => given.realmRoles.includes(name))?.[1] ?? "";
    const user = {
      ...NO_USER,
      ...secrets,
      email,
      emailVerified,
      firstName,
      lastName,
      role,
      identities,
      disabled: !given.enabled,
      mustChangePassword: given.requiredActions.includes("UPDATE_PASSWORD"),
    };
    return { sourceId, leftOut, user };
  });
}

type Secrets = Pick<ImportedUser, "passwordHash" | "totpSecret">;

/** A second factor that cannot be imported refuses the user: without it the account would be easier to break into. */
function readCredentials(credentials: readonly Credential[]): Secrets | { refusal: string } {
  const known = ["password", "otp", ...DISPENSABLE];
  if (credentials.some(({ type }) => !known.includes(type))) return { refusal: "second_factor_unsupported" };
  const [password, ...otherPasswords] = credentials.filter(({ type }) => type === "password");
  const [otp, ...otherOtps] = credentials.filter(({ type }) => type === "otp");
  if (otherPasswords.length > 0) return { refusal: "several_passwords" };
  if (otherOtps.length > 0) return { refusal: "several_totp" };
  if (password !== undefined && password.value !== "") return { refusal: "password_in_plain_text" };
  const passwordHash = password === undefined ? "" : readPassword(password);
  if (passwordHash === undefined) return { refusal: "hash_format_unknown" };
  const totpSecret = otp === undefined ? new Uint8Array(0) : readTotp(otp);
  return totpSecret === undefined ? { refusal: "totp_unsupported" } : { passwordHash, totpSecret };
}

/** Keycloak before 12 calls a TOTP by another name. */
function asNow(given: Credential): Credential {
  if (given.type !== "totp" || given.hashedSaltedValue === "") return given;
  const { hashedSaltedValue: value, digits, period, algorithm } = given;
  return {
    ...given,
    type: "otp",
    secretData: JSON.stringify({ value }),
    credentialData: JSON.stringify({ subType: "totp", digits, period, algorithm }),
  };
}

/** A PHC string, or bcrypt's format. */
function readPassword(given: Credential): string | undefined {
  const hash = jsonText(hashSchema).safeParse(given.secretData).data;
  const cost = jsonText(costSchema).safeParse(given.credentialData).data;
  const now = hash === undefined || cost === undefined ? undefined : { ...hash, ...cost };
  const parts = now ?? oldPassword.safeParse(given).data;
  if (parts === undefined) return undefined;
  const { algorithm, hashIterations, additionalParameters } = parts;
  // Of a widely used extension, which leaves the salt in the value.
  if (algorithm === "bcrypt") return parts.value;
  const end = `${withoutPadding(parts.salt)}$${withoutPadding(parts.value)}`;
  if (algorithm !== "argon2") {
    const name = algorithm === "pbkdf2" ? "pbkdf2-sha1" : algorithm;
    return `$${name}$i=${hashIterations}$${end}`;
  }
  const [type, version, memory, lanes] = ["type", "version", "memory", "parallelism"].map(
    (name) => additionalParameters[name]?.[0],
  );
  return version === "1.3"
    ? `$argon2${type}$v=19$m=${memory},t=${hashIterations},p=${lanes}$${end}`
    : undefined;
}

function withoutPadding(base64: string): string {
  return base64.replace(/={1,2}$/, "");
}

/** The key is the text itself, unless it says that it is Base32. */
function readTotp({ secretData, credentialData }: Credential): Uint8Array | undefined {
  const secret = jsonText(z.looseObject({ value: subject })).safeParse(secretData).data;
  const form = jsonText(totpSchema).safeParse(credentialData).data;
  if (secret === undefined || form === undefined) return undefined;
  return form.secretEncoding === "BASE32" ? base32Bytes(secret.value) : Buffer.from(secret.value);
}

/** Undefined for other text, and for none. */
export function base32Bytes(encoded: string): Uint8Array | undefined {
  try {
    const bytes = base32nopad.decode(encoded.toUpperCase().replace(/=+$/, ""));
    return bytes.length === 0 ? undefined : bytes;
  } catch {
    return undefined;
  }
}
