import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { CallShares } from "#token-client/call-shares.ts";
import { parseIntrospectionClients } from "../oauth-server/introspection-clients.ts";
import { send, testGateway, verifierOfUsers } from "../testing/test-gateway.ts";

const SHARE = 3;
const SECRET = "pqAsFNc2yu6Q0Fhj3tBkmcTwfYV4n1c7";
const digest = createHash("sha256").update(SECRET).digest("hex");
const FORM = {
  authorization: `Basic ${Buffer.from(`ledger:${SECRET}`).toString("base64")}`,
  "content-type": "application/x-www-form-urlencoded",
};
const BEARER = { authorization: "Bearer forged" };
const LINK = { method: "POST", headers: BEARER, body: { token: "t".repeat(43) } } as const;
const OAUTH = { method: "POST", headers: FORM, body: "token=forged.access.token" } as const;

function gateway() {
  const limits = { maxInFlight: 100, maxInFlightPerNetwork: 100, maxRefusals: SHARE, refusalsPerS: 0 };
  const shares = new CallShares({ ...limits, nowMs: () => 0 });
  return testGateway({
    clients: { authenticateClient: async () => ({ clientId: "ledger", credentialId: "" }) },
    introspectionClients: parseIntrospectionClients(`clients: [{ id: ledger, secretSha256: ${digest} }]`),
    verifier: {
      ...verifierOfUsers(new Map()),
      verify(_token, clientIp) {
        const place = shares.enter(clientIp);
        place.refused();
        place.leave();
        return { kind: "inactive", reason: "invalid" };
      },
    },
  }).app;
}

test.each([
  ["a call", { url: "/auth/sessions", headers: BEARER }],
  ["a link of a verification", { url: "/auth/verify-email", ...LINK }],
  ["a link of a new address", { url: "/auth/confirm-email-change", ...LINK }],
  ["an introspection", { url: "/oauth/introspect", ...OAUTH }],
  ["a revocation", { url: "/oauth/revoke", ...OAUTH }],
] as const)("forged tokens of a network beyond its share are 429: %s", async (_what, call) => {
  const app = gateway();
  for (let count = 0; count < SHARE; count += 1) expect((await send(app, call)).statusCode).not.toBe(429);
  expect((await send(app, call)).statusCode).toBe(429);
});
