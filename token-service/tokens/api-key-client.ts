import { LRUCache } from "lru-cache";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { callUnary, createRpcClient } from "#kit/rpc/rpc-client.ts";
import type { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import { DomainError } from "#kit/values/errors.ts";
import { ClientServiceClient } from "#proto/gatehouse/identity/v1/client_service.ts";
import { publicIdOf } from "#token-client/bearer-token.ts";
import type { ProvenApiKey } from "./verify-token.ts";

const CALL_TIMEOUT_MS = 700;
/** Each gateway bounds the keys of a network that it asks about. */
const MAX_IN_FLIGHT = 500;
const MAX_REFUSED = 10_000;
const KEEP_REFUSED_MS = 5_000;

export interface ApiKeys {
  /** Undefined for a key that is not live. @throws {DomainError} `service_unavailable`. */
  ask(apiKey: string): Promise<ProvenApiKey | undefined>;
  close(): void;
}

/** identity-service knows the keys. The caller remembers its answers; this remembers refusals for 5 s. */
export function createApiKeyClient(address: string, certificate: ProcessCertificate): ApiKeys {
  const client = createRpcClient(ClientServiceClient, {
    address,
    service: "identity-service",
    certificate,
    idempotentMethods: ["gatehouse.identity.v1.ClientService/VerifyApiKey"],
  });
  const verify = async (apiKey: string) => {
    const context = newCallContext({ budgetMs: CALL_TIMEOUT_MS });
    return callUnary(client, client.verifyApiKey, { apiKey }, context);
  };
  const refused = new LRUCache<string, true>({ max: MAX_REFUSED, ttl: KEEP_REFUSED_MS });
  const asking = new Map<string, Promise<ProvenApiKey | undefined>>();

  async function askNow(apiKey: string): Promise<ProvenApiKey | undefined> {
    const { active, clientId, credentialId, scopes, provenAt } = await verify(apiKey);
    const isWhole = clientId !== "" && credentialId !== "" && provenAt !== undefined && scopes.length > 0;
    if (active === true && isWhole)
      return { clientId, credentialId, publicId: publicIdOf(apiKey), scopes, provenAt };
    refused.set(apiKey, true);
    return undefined;
  }

  return {
    async ask(apiKey) {
      if (refused.has(apiKey)) return undefined;
      const running = asking.get(apiKey);
      if (running !== undefined) return running;
      if (asking.size >= MAX_IN_FLIGHT)
        throw new DomainError("service_unavailable", "Too many API keys are being verified", {
          retryAfterMs: 1_000,
        });
      const call = askNow(apiKey).finally(() => asking.delete(apiKey));
      asking.set(apiKey, call);
      return call;
    },
    close: () => client.close(),
  };
}
