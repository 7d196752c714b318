import { newCallContext } from "#kit/rpc/call-context.ts";
import { callUnary, createRpcClient } from "#kit/rpc/rpc-client.ts";
import type { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import { IdentityServiceClient } from "#proto/gatehouse/identity/v1/identity_service.ts";
import type { SecurityEvent } from "./security-event-store.ts";

const CALL_TIMEOUT_MS = 3_000;

export function createIdentityNoticeClient(address: string, certificate: ProcessCertificate) {
  const client = createRpcClient(IdentityServiceClient, {
    address,
    service: "identity-service",
    certificate,
  });
  return {
    /** @throws {DomainError} `service_unavailable`. A retry is safe. */
    async notifyRefreshReuse(event: SecurityEvent): Promise<void> {
      const { id: eventId, userId, occurredAt, ip, userAgent } = event;
      const request = { eventId, userId: userId ?? "", occurredAt, ip, userAgent };
      await callUnary(
        client,
        client.notifyRefreshReuse,
        request,
        newCallContext({ budgetMs: CALL_TIMEOUT_MS }),
      );
    },
    close: () => client.close(),
  };
}
