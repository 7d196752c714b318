import { newCallContext } from "#kit/rpc/call-context.ts";
import { callUnary, createRpcClient } from "#kit/rpc/rpc-client.ts";
import type { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import { SecurityEventServiceClient } from "#proto/gatehouse/token/v1/security_event_service.ts";
import type { SignalBody } from "../stream/signal.ts";
import type { SignSignals } from "./attempt.ts";

const CALL_TIMEOUT_MS = 3_000;
const MAX_AT_ONCE = 100;

export function createSignalSigner(address: string, certificate: ProcessCertificate) {
  const client = createRpcClient(SecurityEventServiceClient, {
    address,
    service: "token-service",
    certificate,
    idempotentMethods: ["gatehouse.token.v1.SecurityEventService/SignSecurityEvents"],
  });
  const sign: SignSignals = async (audience, signals) => {
    const tokens = signals.slice(0, MAX_AT_ONCE).map(({ id, body }) => {
      const { type, event, ...subject } = JSON.parse(body) as SignalBody;
      return { jti: id, audience, eventType: type, eventJson: JSON.stringify(event), ...subject };
    });
    const context = newCallContext({ budgetMs: CALL_TIMEOUT_MS });
    return (await callUnary(client, client.signSecurityEvents, { tokens }, context)).tokens;
  };
  return { sign, close: () => client.close() };
}
