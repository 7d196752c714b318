import { generateKeyPairSync, randomBytes } from "node:crypto";
import { createAuthority, issueCertificate, type Pair } from "../certificate-pair.ts";
import { randomPassword } from "../local/private-file.ts";

export interface TrialSecret {
  name: string;
  values: Readonly<Record<string, string>>;
}

const TLS_IDENTITIES = [
  "gateway",
  "identity-service",
  "token-service",
  "audit-service",
  "event-service",
  "payments-service",
  "operator/trial",
  "auditor/trial",
] as const;

/** Random passwords and keys, and certificates (30 days) of a new authority. */
export async function trialSecrets(now: Date): Promise<TrialSecret[]> {
  const authority = await createAuthority(now);
  const pairs = await Promise.all(
    TLS_IDENTITIES.map(async (identity) =>
      tlsSecret(
        `${identity.replace(/\/.*/, "")}-tls`,
        await issueCertificate(authority, identity, now),
        authority,
      ),
    ),
  );
  const postgres = await issueCertificate(authority, "postgres", now, ["postgres"]);
  return [
    ...pairs,
    tlsSecret("postgres-tls", postgres, authority),
    ...["identity", "token", "audit", "event"].flatMap((database) => [
      databaseSecret(`${database}-database`, authority),
      databaseSecret(`${database}-database-owner`, authority),
    ]),
    { name: "postgres-superuser", values: { password: randomPassword() } },
    { name: "redis", values: { password: randomPassword() } },
    { name: "first-administrator", values: { password: randomPassword() } },
    {
      name: "identity-keys",
      values: { "link-key": newKey(), "mfa-encryption-key": newKey(), "device-key": newKey() },
    },
    { name: "audit-keys", values: { "checkpoint-key": newSigningKey() } },
    { name: "event-keys", values: { "webhook-encryption-key": newKey() } },
    { name: "token-keys", values: { "key-encryption-key": newKey() } },
  ];
}

function tlsSecret(name: string, pair: Pair, authority: Pair): TrialSecret {
  return {
    name,
    values: { "tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.certificate },
  };
}

function databaseSecret(name: string, authority: Pair): TrialSecret {
  return { name, values: { password: randomPassword(), "ca.crt": authority.certificate } };
}

/** 32 random bytes in base64. */
function newKey(): string {
  return randomBytes(32).toString("base64");
}

/** Ed25519, PEM (PKCS#8). */
function newSigningKey(): string {
  return generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" }).toString();
}
