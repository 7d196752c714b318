import { z } from "zod";
import { DomainError } from "#kit/values/errors.ts";
import { DEVICE_SESSION_PATH, keepDeviceCookie } from "../edge/request/browser-session.ts";
import { clientOf } from "../edge/request/caller.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { textLike } from "../routing/fields.ts";
import { VERSION_PREFIXES } from "../routing/proxy-table.ts";
import { JSON_TYPE } from "../routing/route-docs.ts";
import type { AuthDeps } from "./login-answer.ts";

/** A string of RFC 9651, of the characters that ids and JWTs have. */
const STRING = /^"([\w.-]{1,4096})"(?:;.*)?$/;

const instructions = z
  .looseObject({ session_identifier: textLike("0199a000-0000-7000-8000-000000000002") })
  .meta({ id: "DeviceSession", description: "JSON session instructions." });

/** @param deps.allowedOrigins their pages may refresh, too. */
export function registerDeviceSessionRoutes(
  app: GatewayApp,
  { sessions, allowedOrigins }: Pick<AuthDeps, "sessions"> & { allowedOrigins: ReadonlySet<string> },
): void {
  const hosts = [...allowedOrigins]
    .filter((origin) => origin !== "*")
    .map((origin) => new URL(origin).hostname);
  // The last rule that fits counts.
  const scope = [
    { type: "exclude", domain: "*", path: "/" },
    ...VERSION_PREFIXES.map((prefix) => ({ type: "include", domain: "*", path: `${prefix}/auth/refresh` })),
  ];

  routeIn(app, "Logins")("proveDevice", "POST", DEVICE_SESSION_PATH, {
    summary: "Prove the device of a browser session",
    description:
      "For browsers with Device Bound Session Credentials (W3C), which call it by themselves where they are on.",
    // token-service records bindings and refused proofs. The rest is one step of a refresh, which is recorded.
    policy: { auth: "public", limitClass: "refresh", isAudited: false },
    answers: { 200: { description: "Bound, or proven.", content: { [JSON_TYPE]: instructions } } },
    codes: ["forbidden", "not_found", "conflict", "refresh_token_invalid"],
    handler: async (request, reply) => {
      const sessionId = stringIn(request.headers["sec-secure-session-id"]);
      const proof = stringIn(request.headers["secure-session-response"]);
      const { clientIp: ip, userAgent } = clientOf(request);
      const proven = await sessions.proveDevice({ sessionId, proof, ip, userAgent }, request.state.call);
      const { sessionId: id, cookie, challenge } = proven;
      if (cookie === "") {
        reply.header("secure-session-challenge", `"${challenge}";id="${id}"`);
        throw new DomainError("forbidden", "Sign the challenge.");
      }
      return {
        session_identifier: id,
        refresh_url: DEVICE_SESSION_PATH,
        scope: { include_site: false, scope_specification: scope },
        credentials: [keepDeviceCookie(reply, cookie, proven.expiresInS)],
        allowed_refresh_initiators: hosts,
      };
    },
  });
}

/** Empty if absent, or no such string. */
function stringIn(header: string | string[] | undefined): string {
  return STRING.exec(String(header))?.[1] ?? "";
}
