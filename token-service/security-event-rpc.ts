import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import type { SecurityEventServiceServer } from "#proto/gatehouse/token/v1/security_event_service.ts";
import { decode } from "./decode-request.ts";
import {
  type SignSecurityEventsDeps,
  securityEventTokens,
  signSecurityEvents,
} from "./tokens/sign-security-events.ts";

export const securityEventCallers: Callers<SecurityEventServiceServer> = {
  signSecurityEvents: ["event-service"],
};

export function createSecurityEventRpc(
  deps: SignSecurityEventsDeps,
): Implementation<SecurityEventServiceServer> {
  return {
    signSecurityEvents: async (request) => ({
      tokens: signSecurityEvents(deps, decode(securityEventTokens, request).tokens),
    }),
  };
}
