import { z } from "zod";
import { languageTag } from "#kit/values/locale.ts";
import { base32Bytes } from "./keycloak-user.ts";
import { flag, NO_USER, optional, readRecord, subject, text, type UserRecord } from "./user-record.ts";

/** An unknown field is refused: it may be a misspelt one. */
const schema = z.strictObject({
  id: text,
  email: z.string(),
  emailVerified: flag,
  firstName: text,
  lastName: text,
  name: text,
  passwordHash: text,
  role: text,
  disabled: flag,
  mustChangePassword: flag,
  identities: optional(z.array(z.strictObject({ provider: z.string(), subject }))).transform(
    (value) => value ?? [],
  ),
  totpSecret: text,
  language: text.refine((tag) => tag === "" || languageTag(tag) !== undefined),
});

/** A line of our own format: see docs/migrate/README.md. */
export function plainUser(value: unknown): UserRecord {
  return readRecord(value, schema, ({ id: sourceId, totpSecret, ...user }) => {
    const secret = totpSecret === "" ? new Uint8Array(0) : base32Bytes(totpSecret);
    if (secret === undefined) return { sourceId, leftOut: [], refusal: "totp_unsupported" };
    return { sourceId, leftOut: [], user: { ...NO_USER, ...user, totpSecret: secret } };
  });
}
