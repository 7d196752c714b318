import { expect, test } from "vitest";
import { keyCallers } from "./key-rpc.ts";
import { securityEventCallers } from "./security-event-rpc.ts";
import { sessionCallers } from "./session-rpc.ts";
import { tokenCallers } from "./token-rpc.ts";

test("who may call what: sessions", () => {
  expect(sessionCallers).toEqual({
    issueSession: ["identity-service"],
    issueClientToken: ["identity-service"],
    exchangeToken: ["gateway"],
    revokeClientTokens: ["gateway", "identity-service"],
    raiseSession: ["identity-service"],
    refreshSession: ["gateway"],
    proveRefreshToken: ["gateway"],
    proveDevice: ["gateway"],
    revokeSession: ["gateway", "identity-service", "operator"],
    revokeUserSessions: ["gateway", "identity-service"],
    revokeAllSessions: ["operator"],
    listSessions: ["gateway", "identity-service", "operator"],
  });
});

test("who may call what: keys", () => {
  expect(keyCallers).toEqual({
    listSigningKeys: ["gateway", "operator"],
    rotateSigningKey: ["operator"],
    revokeSigningKey: ["operator"],
  });
});

test("who may have what signed", () => {
  expect(securityEventCallers).toEqual({ signSecurityEvents: ["event-service"] });
});

test("who may call what: tokens", () => {
  const all = ["gateway", "payments-service"];
  expect(tokenCallers(["payments-service"])).toEqual({
    verifyToken: all,
    watchRevocations: all,
    getJwks: ["identity-service", ...all],
  });
});
