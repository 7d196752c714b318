import { base32nopad } from "@scure/base";
import { z } from "zod";
import type { ImportedUser } from "../../proto/gen/gatehouse/identity/v1/user_import_service.ts";
import {
  jsonText,
  type Mapping,
  mappedIdentities,
  NO_USER,
  readRecord,
  text,
  type UserRecord,
} from "./user-record.ts";

const credential = z.looseObject({ type: z.string(), secretData: text, credentialData: text });
type Credential = z.infer<typeof credential>;

const schema = z.looseObject({
  id: text,
  email: text,
  emailVerified: z.boolean().default(false),
  firstName: text,
  lastName: text,
  enabled: z.boolean().default(true),
  serviceAccountClientId: text,
  credentials: z.array(credential).default([]),
  requiredActions: z.array(z.string()).default([]),
  federatedIdentities: z
    .array(z.looseObject({ identityProvider: z.string(), userId: z.string() }))
    .default([]),
  realmRoles: z.array(z.string()).default([]),
});

const hashSchema = z.looseObject({ value: z.string(), salt: z.string() });
const costSchema = z.looseObject({
  hashIterations: z.int().positive(),
  algorithm: z.string(),
  additionalParameters: z.record(z.string(), z.array(z.string())).default({}),
});
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
 * A user of a realm export of Keycloak 12 or newer.
 * @see https://www.keycloak.org/docs-api/latest/rest-api/#UserRepresentation
 */
export function keycloakUser(value: unknown, mapping: Mapping): UserRecord {
  return readRecord(value, schema, (told) => {
    const { id: sourceId, email, emailVerified, firstName, lastName, credentials } = told;
    const { identities, leftOut } = mappedIdentities(
      told.federatedIdentities.map(({ identityProvider: provider, userId: subject }) => ({
        provider,
        subject,
      })),
      mapping,
    );
    const others = credentials.filter(({ type }) => DISPENSABLE.includes(type));
    const roles = told.realmRoles.filter((role) => !mapping.roles.has(role) && !BUILT_IN_ROLE.test(role));
    leftOut.push(...others.map(({ type }) => `credential ${type}`), ...roles.map((role) => `role ${role}`));
    if (told.serviceAccountClientId !== "") return { sourceId, leftOut, refusal: "service_account" };
    const secrets = readCredentials(credentials);
    if ("refusal" in secrets) return { sourceId, leftOut, refusal: secrets.refusal };
    const role = [...mapping.roles].find(([name]) => told.realmRoles.includes(name))?.[1] ?? "";
    const user = {
      ...NO_USER,
      ...secrets,
      email,
      emailVerified,
      firstName,
      lastName,
      role,
      identities,
      disabled: !told.enabled,
      mustChangePassword: told.requiredActions.includes("UPDATE_PASSWORD"),
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
  const passwordHash = password === undefined ? "" : readPassword(password);
  if (passwordHash === undefined) return { refusal: "hash_format_unknown" };
  const totpSecret = otp === undefined ? new Uint8Array(0) : readTotp(otp);
  return totpSecret === undefined ? { refusal: "totp_unsupported" } : { passwordHash, totpSecret };
}

/** A PHC string. */
function readPassword({ secretData, credentialData }: Credential): string | undefined {
  const hash = jsonText(hashSchema).safeParse(secretData).data;
  const cost = jsonText(costSchema).safeParse(credentialData).data;
  if (hash === undefined || cost === undefined) return undefined;
  const { algorithm, hashIterations, additionalParameters } = cost;
  const end = `${withoutPadding(hash.salt)}$${withoutPadding(hash.value)}`;
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
  const secret = jsonText(z.looseObject({ value: z.string() })).safeParse(secretData).data;
  const form = jsonText(totpSchema).safeParse(credentialData).data;
  if (secret === undefined || form === undefined) return undefined;
  return form.secretEncoding === "BASE32" ? base32Bytes(secret.value) : Buffer.from(secret.value);
}

/** Undefined for other text. */
export function base32Bytes(encoded: string): Uint8Array | undefined {
  try {
    return base32nopad.decode(encoded.toUpperCase().replace(/=+$/, ""));
  } catch {
    return undefined;
  }
}
