import { createHash } from "node:crypto";
import { z } from "zod";

const CHALLENGE = /^[A-Za-z0-9_-]{43}$/;

/** WebAuthn Level 3 §5.8.1. The library checks the rest. */
const ClientData = z.object({
  challenge: z.string().regex(CHALLENGE),
  // The library lets an answer from a frame of another site pass.
  crossOrigin: z.literal(false).optional(),
  topOrigin: z.undefined().optional(),
});

/** The challenge in base64url. Undefined for malformed data and answers from frames of other sites. */
export function challengeOf(clientDataJson: string): string | undefined {
  try {
    const text = Buffer.from(clientDataJson, "base64url").toString("utf8");
    return ClientData.safeParse(JSON.parse(text)).data?.challenge;
  } catch {
    return undefined;
  }
}

export function hashOfChallenge(challenge: string): Buffer {
  return createHash("sha256").update(Buffer.from(challenge, "base64url")).digest();
}
