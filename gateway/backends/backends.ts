import { openRpcChannel, type RpcMethods } from "#kit/rpc/rpc-client.ts";
import type { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import { DomainError } from "#kit/values/errors.ts";
import { AuditQueryServiceService } from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { SignalServiceService } from "#proto/gatehouse/events/v1/signal_service.ts";
import { WebhookServiceService } from "#proto/gatehouse/events/v1/webhook_service.ts";
import {
  ClientAdminServiceService,
  ClientServiceService,
} from "#proto/gatehouse/identity/v1/client_service.ts";
import { IdentityServiceService } from "#proto/gatehouse/identity/v1/identity_service.ts";
import { UserAdminServiceService } from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import { KeyServiceService } from "#proto/gatehouse/token/v1/key_service.ts";
import {
  type RefreshSessionResponse,
  SessionServiceService,
} from "#proto/gatehouse/token/v1/session_service.ts";
import { TokenServiceService } from "#proto/gatehouse/token/v1/token_service.ts";
import { isRefreshTokenForm } from "#token-client/token-rules.ts";

/** Methods throw the service's error as a DomainError. */
export interface Backends {
  identity: RpcMethods<typeof IdentityServiceService>;
  users: RpcMethods<typeof UserAdminServiceService>;
  clients: RpcMethods<typeof ClientServiceService>;
  clientAdmin: RpcMethods<typeof ClientAdminServiceService>;
  sessions: RpcMethods<typeof SessionServiceService>;
  tokens: Pick<RpcMethods<typeof TokenServiceService>, "getJwks">;
  keys: Pick<RpcMethods<typeof KeyServiceService>, "listSigningKeys">;
  auditQuery: RpcMethods<typeof AuditQueryServiceService>;
  webhooks: RpcMethods<typeof WebhookServiceService>;
  signals: RpcMethods<typeof SignalServiceService>;
}

/** `host:port` of each service. */
interface BackendAddresses {
  identity: string;
  token: string;
  audit: string;
  event: string;
}

const idempotentIn = {
  identity: [
    IdentityServiceService.getUser,
    IdentityServiceService.checkLink,
    IdentityServiceService.listProviders,
    IdentityServiceService.listPasskeys,
    IdentityServiceService.listTrustedDevices,
    UserAdminServiceService.listUsers,
    UserAdminServiceService.getManagedUser,
    UserAdminServiceService.getUserFigures,
    ClientAdminServiceService.listClients,
    ClientAdminServiceService.getClient,
  ],
  token: [
    SessionServiceService.listSessions,
    // The same token gets the same successor until that is used.
    SessionServiceService.refreshSession,
    SessionServiceService.revokeSession,
    SessionServiceService.proveRefreshToken,
    SessionServiceService.revokeClientTokens,
    SessionServiceService.exchangeToken,
    TokenServiceService.getJwks,
    KeyServiceService.listSigningKeys,
  ],
  audit: [
    AuditQueryServiceService.searchEntries,
    AuditQueryServiceService.followEntries,
    AuditQueryServiceService.summarizeLogins,
    AuditQueryServiceService.getEntry,
    AuditQueryServiceService.getCheckpoint,
    AuditQueryServiceService.proveInclusion,
    AuditQueryServiceService.proveConsistency,
  ],
  event: [
    WebhookServiceService.listEndpoints,
    WebhookServiceService.getEndpoint,
    WebhookServiceService.listDeliveries,
    SignalServiceService.getStream,
    // What was not acknowledged comes again.
    SignalServiceService.pollStream,
  ],
} as const;

/** Channels connect on first use. */
export function openBackends(
  addresses: BackendAddresses,
  certificate: ProcessCertificate,
): { backends: Backends; close: () => void } {
  const open = (name: keyof BackendAddresses) =>
    openRpcChannel({
      address: addresses[name],
      service: `${name}-service`,
      certificate,
      idempotentMethods: idempotentIn[name].map(({ path }) => path.slice(1)),
    });
  const [identity, token, audit, event] = [open("identity"), open("token"), open("audit"), open("event")];
  return {
    backends: {
      identity: identity.methodsOf(IdentityServiceService),
      users: identity.methodsOf(UserAdminServiceService),
      clients: identity.methodsOf(ClientServiceService),
      clientAdmin: identity.methodsOf(ClientAdminServiceService),
      sessions: guardedSessions(token.methodsOf(SessionServiceService)),
      tokens: token.methodsOf(TokenServiceService),
      keys: token.methodsOf(KeyServiceService),
      auditQuery: audit.methodsOf(AuditQueryServiceService),
      webhooks: event.methodsOf(WebhookServiceService),
      signals: event.methodsOf(SignalServiceService),
    },
    close: () => {
      for (const channel of [identity, token, audit, event]) channel.close();
    },
  };
}

/** Malformed refresh tokens are not sent to token-service, and equal ones at the same moment once. */
export function guardedSessions(sessions: Backends["sessions"]): Backends["sessions"] {
  const assertForm = ({ refreshToken }: { refreshToken: string }) => {
    if (!isRefreshTokenForm(refreshToken)) throw new DomainError("refresh_token_invalid");
  };
  const underWay = new Map<string, Promise<RefreshSessionResponse>>();
  return {
    ...sessions,
    // Tabs of a browser refresh at the same moment. One after the other they would get the same answer.
    async refreshSession(request, context) {
      assertForm(request);
      const key = JSON.stringify(request);
      const known = underWay.get(key);
      if (known !== undefined) return known;
      const answer = sessions.refreshSession(request, context).finally(() => underWay.delete(key));
      underWay.set(key, answer);
      return answer;
    },
    async proveRefreshToken(request, context) {
      assertForm(request);
      return sessions.proveRefreshToken(request, context);
    },
  };
}
