import { createHash, createHmac, pbkdf2Sync, randomBytes } from "node:crypto";

const ITERATIONS = 4096; // PostgreSQL's own default; the passwords here are random, so more would protect nothing

/**
 * What PostgreSQL stores for a password, made on this side, so that the password itself is in no statement and so in no
 * log of the server.
 *
 * @param password ASCII only: nothing for SASLprep to change.
 * @see RFC 5802 §3, RFC 7677; PostgreSQL's `pg_authid.rolpassword`.
 */
export function scramVerifier(password: string, salt: Buffer = randomBytes(16)): string {
  if (!/^[\x21-\x7e]+$/.test(password)) throw new Error("The password of a role must be printable ASCII");
  const salted = pbkdf2Sync(password, salt, ITERATIONS, 32, "sha256");
  const clientKey = createHmac("sha256", salted).update("Client Key").digest();
  const storedKey = createHash("sha256").update(clientKey).digest("base64");
  const serverKey = createHmac("sha256", salted).update("Server Key").digest("base64");
  return `SCRAM-SHA-256$${ITERATIONS}:${salt.toString("base64")}$${storedKey}:${serverKey}`;
}
