import { z } from "zod";
import type { KeyRing } from "../keys/key-ring.ts";
import { signCompactJws } from "./jws-signature.ts";
import { secondsOf } from "./sign-pair.ts";

/** RFC 8417 §2.3. Nobody takes it for an access token, whose type is another one. */
const SECURITY_EVENT_TYPE = "secevent+jwt";
const MAX_EVENT_CHARACTERS = 8_192;

const idOrEmpty = z.union([z.literal(""), z.uuid()]);

/** A JSON object. */
const eventMembers = z
  .string()
  .max(MAX_EVENT_CHARACTERS)
  .transform((text, context): Record<string, unknown> => {
    const { data } = z.record(z.string(), z.unknown()).safeParse(parsed(text));
    if (data === undefined) context.addIssue({ code: "custom", message: "must be a JSON object" });
    return data ?? {};
  });

export const securityEventTokens = z.object({
  tokens: z
    .array(
      z.object({
        jti: z.uuid(),
        audience: z.string().min(1).max(256),
        eventType: z.url().max(256),
        eventJson: eventMembers,
        userId: idOrEmpty,
        sessionId: idOrEmpty,
        streamId: idOrEmpty,
      }),
    )
    .min(1)
    .max(100),
});

type SecurityEventToken = z.output<typeof securityEventTokens>["tokens"][number];

export interface SignSecurityEventsDeps {
  issuer: string;
  keys: Pick<KeyRing, "active">;
  assertClock: () => void;
  now: () => Date;
}

/** One event each (OpenID Shared Signals Framework 1.0, section 4). @throws {DomainError} `service_unavailable`. */
export function signSecurityEvents(
  { issuer, keys, assertClock, now }: SignSecurityEventsDeps,
  tokens: readonly SecurityEventToken[],
): string[] {
  assertClock();
  const key = keys.active();
  return tokens.map((token) =>
    signCompactJws(key, SECURITY_EVENT_TYPE, {
      iss: issuer,
      aud: token.audience,
      iat: secondsOf(now()),
      jti: token.jti,
      sub_id: subjectOf(token, issuer),
      events: { [token.eventType]: token.eventJson },
    }),
  );
}

/** RFC 9493; complex subjects: OpenID Shared Signals Framework 1.0, section 3. */
function subjectOf({ userId, sessionId, streamId }: SecurityEventToken, iss: string) {
  if (streamId !== "") return { format: "opaque", id: streamId };
  const user = { format: "iss_sub", iss, sub: userId };
  if (sessionId !== "") return { format: "complex", user, session: { format: "opaque", id: sessionId } };
  return userId === "" ? { format: "complex", tenant: { format: "uri", uri: iss } } : user;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
