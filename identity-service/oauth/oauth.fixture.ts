import { Secret } from "#kit/config/config.ts";
import { createLogger } from "#kit/telemetry/logger.ts";
import { createOutboundHttp } from "#outbound-http/outbound-http.ts";
import type { ProviderSettings } from "./oauth-provider-settings.ts";
import { createRelyingParty } from "./relying-party.ts";

export function settingsOf(issuer: string, overrides: Partial<ProviderSettings> = {}): ProviderSettings {
  return {
    name: "demo",
    displayName: "Demo",
    protocol: "oidc",
    issuer,
    endpoints: undefined,
    clientId: "gatehouse",
    clientAuthentication: {
      kind: "client_secret_basic",
      secret: new Secret("the client secret of the tests, long enough"),
    },
    scopes: ["openid", "email"],
    afreshPrompt: "login",
    responseMode: "query",
    claims: {
      email: "email",
      emailVerified: "email_verified",
      firstName: "given_name",
      lastName: "family_name",
    },
    takesBooleanText: false,
    network: "loopback",
    ...overrides,
  };
}

export function partyOf(settings: ProviderSettings, timeoutMs = 5_000, logLines: string[] = []) {
  return createRelyingParty({
    settings,
    publicOrigin: "https://gatehouse.example",
    http: createOutboundHttp({ network: settings.network, timeoutMs }),
    nowMs: Date.now,
    logger: createLogger("test", "info", { write: (line) => void logLines.push(line) }),
    timeoutMs,
  });
}
