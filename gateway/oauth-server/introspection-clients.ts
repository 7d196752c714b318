import { createHash, timingSafeEqual } from "node:crypto";
import { parse } from "yaml";
import { z } from "zod";
import { ConfigError } from "#kit/config/config.ts";

const MAX_CLIENTS = 100;

const clientsFile = z.strictObject({
  clients: z
    .array(
      z.strictObject({
        /** May occur twice while a secret is replaced. */
        id: z.string().regex(/^[A-Za-z0-9._-]{1,64}$/, "must be 1 to 64 of A-Z a-z 0-9 . _ -"),
        /** Computed over the secret's UTF-8. A plain hash needs a random secret: 32 bytes, not a password. */
        secretSha256: z.string().regex(/^[0-9a-f]{64}$/, "must be 64 hexadecimal digits in lower case"),
      }),
    )
    .min(1, "must name a client")
    .max(MAX_CLIENTS),
});

export interface IntrospectionClients {
  /** @returns the client's id. Takes as long for every secret. */
  authenticate(authorization: string | undefined): string | undefined;
}

/** @param text YAML 1.2 or JSON. @throws {ConfigError} naming every problem, never a value. */
export function parseIntrospectionClients(text: string): IntrospectionClients {
  const { data, error } = clientsFile.safeParse(parsed(text), { reportInput: true });
  if (error !== undefined) {
    const lines = error.issues.map((issue) => `    ${issue.path.join(".") || "(all)"}: ${issue.message}`);
    throw new ConfigError(`the clients file cannot be used:\n${lines.join("\n")}`);
  }
  const clients = data.clients.map(({ id, secretSha256 }) => ({
    id,
    digest: Buffer.from(secretSha256, "hex"),
  }));
  return {
    authenticate(authorization) {
      const given = basicCredentials(authorization);
      if (given === undefined) return undefined;
      const digest = createHash("sha256").update(given.secret).digest();
      // All are compared, so that the time discloses nothing.
      const proven = clients.filter(
        (client) => timingSafeEqual(client.digest, digest) && client.id === given.id,
      );
      return proven[0]?.id;
    },
  };
}

function parsed(text: string): unknown {
  try {
    return parse(text, { prettyErrors: false });
  } catch {
    throw new ConfigError("the clients file cannot be used: it is not YAML"); // The text may contain a secret.
  }
}

const BASIC = /^basic +([A-Za-z0-9+/]+={0,2})$/i;

/** RFC 7617, with id and secret form-encoded (RFC 6749 §2.3.1). */
export function basicCredentials(
  authorization: string | undefined,
): { id: string; secret: string } | undefined {
  const encoded = BASIC.exec(authorization ?? "")?.[1];
  if (encoded === undefined) return undefined;
  const text = Buffer.from(encoded, "base64").toString("utf8");
  const colon = text.indexOf(":");
  if (colon < 1) return undefined;
  try {
    return { id: formDecoded(text.slice(0, colon)), secret: formDecoded(text.slice(colon + 1)) };
  } catch {
    return undefined; // A broken escape.
  }
}

function formDecoded(text: string): string {
  return decodeURIComponent(text.replaceAll("+", " "));
}
