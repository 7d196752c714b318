import { newCallContext } from "#kit/rpc/call-context.ts";
import { callUnary, createRpcClient } from "#kit/rpc/rpc-client.ts";
import type { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import { ClientServiceClient } from "#proto/gatehouse/identity/v1/client_service.ts";
import { IdentityServiceClient } from "#proto/gatehouse/identity/v1/identity_service.ts";
import type { TellPausesDeps } from "./tell-pauses.ts";

const CALL_TIMEOUT_MS = 3_000;

export function createIdentityClient(address: string, certificate: ProcessCertificate) {
  const client = createRpcClient(IdentityServiceClient, {
    address,
    service: "identity-service",
    certificate,
  });
  const clients = createRpcClient(ClientServiceClient, {
    address,
    service: "identity-service",
    certificate,
    idempotentMethods: ["gatehouse.identity.v1.ClientService/FilterClients"],
  });
  return {
    /** @returns those that may have a stream. @throws {DomainError} `service_unavailable`. */
    async filterReceivers(clientIds: readonly string[]): Promise<string[]> {
      const request = { clientIds: [...clientIds], permission: "signals:receive" };
      const context = newCallContext({ budgetMs: CALL_TIMEOUT_MS });
      return (await callUnary(clients, clients.filterClients, request, context)).clientIds;
    },
    /** @throws {DomainError} `service_unavailable`. A retry is safe. */
    async notifyOwner({
      eventId,
      ownerId,
      name,
      pausedAt,
    }: Parameters<TellPausesDeps["notifyOwner"]>[0]): Promise<void> {
      const request = { eventId, ownerUserId: ownerId, webhookName: name, pausedAt };
      const context = newCallContext({ budgetMs: CALL_TIMEOUT_MS });
      await callUnary(client, client.notifyWebhookPaused, request, context);
    },
    close() {
      client.close();
      clients.close();
    },
  };
}
