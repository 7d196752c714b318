import { z } from "zod";
import { base32Bytes } from "./keycloak-user.ts";
import { NO_USER, readRecord, type UserRecord } from "./user-record.ts";

/** An unknown field is refused: it may be a misspelt one. */
const schema = z.strictObject({
  id: z.string().default(""),
  email: z.string(),
  emailVerified: z.boolean().default(false),
  firstName: z.string().default(""),
  lastName: z.string().default(""),
  name: z.string().default(""),
  passwordHash: z.string().default(""),
  role: z.string().default(""),
  disabled: z.boolean().default(false),
  mustChangePassword: z.boolean().default(false),
  identities: z.array(z.strictObject({ provider: z.string(), subject: z.string() })).default([]),
  totpSecret: z.string().default(""),
});

/** A line of our own format: see docs/migrate/README.md. */
export function plainUser(value: unknown): UserRecord {
  return readRecord(value, schema, ({ id: sourceId, totpSecret, ...user }) => {
    const secret = totpSecret === "" ? new Uint8Array(0) : base32Bytes(totpSecret);
    if (secret === undefined) return { sourceId, leftOut: [], refusal: "totp_unsupported" };
    return { sourceId, leftOut: [], user: { ...NO_USER, ...user, totpSecret: secret } };
  });
}
