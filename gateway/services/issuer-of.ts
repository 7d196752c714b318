import { z } from "zod";

const claims = z.object({ iss: z.string() });

/**
 * The `iss` of an access token that has just been verified: it is genuine, so reading it proves nothing and needs no
 * proof.
 *
 * @throws if the text is no JWT, which a verified token always is.
 */
export function issuerOf(verifiedToken: string): string {
  const payload = Buffer.from(verifiedToken.split(".")[1] ?? "", "base64url").toString("utf8");
  return claims.parse(JSON.parse(payload)).iss;
}
