import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import { DomainError } from "#kit/values/errors.ts";
import type {
  ClientAuthentication,
  ClientServiceServer,
} from "#proto/gatehouse/identity/v1/client_service.ts";
import { type VerifyApiKeyDeps, verifyApiKey } from "./clients/api-keys.ts";
import { authenticateClient, type ClientProof } from "./clients/authenticate-client.ts";
import { type GrantClientTokenDeps, grantClientToken } from "./clients/grant-client-token.ts";
import { filterClients } from "./clients/managed-clients.ts";

export const CLIENT_CALLERS: Callers<ClientServiceServer> = {
  grantClientToken: ["gateway"],
  authenticateClient: ["gateway"],
  verifyApiKey: ["token-service"],
  filterClients: ["event-service"],
};

export function createClientRpc(
  deps: GrantClientTokenDeps & VerifyApiKeyDeps,
): Implementation<ClientServiceServer> {
  return {
    grantClientToken: async ({ authentication, scope, confirmation }, context) => {
      const who = decodeProof(authentication);
      return grantClientToken(deps, { ...who, scope, confirmation }, context);
    },
    authenticateClient: async ({ authentication }) => {
      const { proof, clientIp } = decodeProof(authentication);
      const { id, clientId } = await authenticateClient(deps, proof, clientIp);
      return { clientId, credentialId: id };
    },
    verifyApiKey: async ({ apiKey }) => {
      const key = await verifyApiKey(deps, apiKey);
      if (key === undefined)
        return { active: false, clientId: "", credentialId: "", scopes: [], provenAt: undefined };
      const { id: credentialId, clientId, permissions: scopes, provenAt } = key;
      return { active: true, clientId, credentialId, scopes, provenAt };
    },
    filterClients: async ({ clientIds, permission }) => ({
      clientIds: await filterClients(deps, clientIds, permission),
    }),
  };
}

function decodeProof(message: ClientAuthentication | undefined): { proof: ClientProof; clientIp: string } {
  const { proof, clientIp = "" } = message ?? {};
  if (proof?.$case === "assertion") return { proof: { kind: "assertion", assertion: proof.value }, clientIp };
  if (proof?.$case === "secret") return { proof: { kind: "secret", ...proof.value }, clientIp };
  throw new DomainError("invalid_client");
}
