import { IdentityServiceClient } from "../../proto/gen/gatehouse/identity/v1/identity_service.ts";
import type { CallContext } from "../../service-kit/call-context.ts";
import { callUnary, createRpcClient } from "../../service-kit/rpc-client.ts";
import type { ProcessCertificate } from "../../service-kit/rpc-tls.ts";
import { type CompletedLogin, type PendingPasswordChange, toCompletedLogin } from "./identity-client.ts";

/** A code, and where it came from. */
export interface TypedCode {
  code: string;
  clientIp: string;
  userAgent: string;
}

/** Whose second factor, and the session that goes on. */
export interface Owner {
  userId: string;
  sessionId: string;
}

/** What goes into an authenticator app. */
export interface TotpEnrollment {
  secret: string;
  otpauthUrl: string;
  qrCode: string;
}

/** The gateway's view of the second factor. Every call throws what identity-service says, as a DomainError. */
export interface MfaClient {
  completeLogin(
    attempt: TypedCode & { tempToken: string; deviceToken: string },
    context: CallContext,
  ): Promise<CompletedLogin | { passwordChange: PendingPasswordChange }>;
  beginEnrollment(
    request: { userId: string; password: string; clientIp: string },
    context: CallContext,
  ): Promise<TotpEnrollment>;
  confirmEnrollment(
    request: Owner & TypedCode,
    context: CallContext,
  ): Promise<{ recoveryCodes: readonly string[]; endedSessionIds: readonly string[] }>;
  /** @returns the ids of the sessions that ended. */
  disable(
    request: Owner & TypedCode & { password: string },
    context: CallContext,
  ): Promise<readonly string[]>;
  /** @returns the new recovery codes. */
  regenerateRecoveryCodes(
    request: TypedCode & { userId: string },
    context: CallContext,
  ): Promise<readonly string[]>;
  close(): void;
}

/** @param address `host:port` of identity-service. */
export function createMfaClient(address: string, certificate: ProcessCertificate): MfaClient {
  const client = createRpcClient(IdentityServiceClient, {
    address,
    service: "identity-service",
    certificate,
  });
  return {
    async completeLogin(attempt, context) {
      const answer = await callUnary(client, client.completeMfaLogin, attempt, context);
      const { completed, passwordChange } = answer;
      if (passwordChange !== undefined) return { passwordChange };
      return toCompletedLogin(completed);
    },
    async beginEnrollment(request, context) {
      const answer = await callUnary(client, client.beginTotpEnrollment, request, context);
      const { secret, otpauthUrl, qrCode } = answer;
      return { secret, otpauthUrl, qrCode };
    },
    confirmEnrollment: (request, context) =>
      callUnary(client, client.confirmTotpEnrollment, request, context),
    async disable(request, context) {
      const { endedSessionIds } = await callUnary(client, client.disableTotp, request, context);
      return endedSessionIds;
    },
    async regenerateRecoveryCodes(request, context) {
      const answer = await callUnary(client, client.regenerateRecoveryCodes, request, context);
      return answer.recoveryCodes;
    },
    close: () => client.close(),
  };
}
