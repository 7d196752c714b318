import { filterText, type RecordReading } from "#audit-client/stream/record-reading.ts";
import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import { DomainError } from "#kit/values/errors.ts";
import {
  type ClientAdminServiceServer,
  type MachineClient as ClientMessage,
  type ClientCredential as CredentialMessage,
  CredentialKind as ProtoKind,
  ClientStatus as ProtoStatus,
} from "#proto/gatehouse/identity/v1/client_service.ts";
import { type AuthorizeDeps, type MethodPermissions, withPermissions } from "./admin/authorize.ts";
import { actReason } from "./audit/act-reason.ts";
import { type AddCredentialDeps, addCredential } from "./clients/add-credential.ts";
import { changeClient } from "./clients/change-client.ts";
import type { ClientStatus, MachineClient } from "./clients/client-store.ts";
import { createClient } from "./clients/create-client.ts";
import type { ClientCredential, CredentialKind } from "./clients/credential-store.ts";
import { deleteClient, revokeCredential } from "./clients/delete-client.ts";
import { getClient, listClients } from "./clients/managed-clients.ts";

const administrators = ["gateway", "operator"] as const;

export const CLIENT_ADMIN_CALLERS: Callers<ClientAdminServiceServer> = {
  listClients: administrators,
  getClient: administrators,
  createClient: administrators,
  changeClient: administrators,
  deleteClient: administrators,
  addClientCredential: administrators,
  revokeClientCredential: administrators,
};

const PERMISSIONS: MethodPermissions<ClientAdminServiceServer> = {
  listClients: "clients:read",
  getClient: "clients:read",
  createClient: "clients:write",
  changeClient: "clients:write",
  deleteClient: "clients:write",
  addClientCredential: "clients:write",
  revokeClientCredential: "clients:write",
};

export function createClientAdminRpc(
  deps: AddCredentialDeps & AuthorizeDeps,
  recordReading: RecordReading,
): Implementation<ClientAdminServiceServer> {
  return withPermissions(deps, PERMISSIONS, {
    listClients: async ({ ownedBy: owner, cursor, limit }, context) => {
      const filter = filterText({ owner, cursor, limit });
      await recordReading(context, { action: "client.listed", filter });
      const page = await listClients(deps, { owner, cursor, limit });
      return {
        clients: page.clients.map((client) => encodeClient(client)),
        nextCursor: page.nextCursor ?? "",
      };
    },
    getClient: async ({ clientId }, context) => {
      await recordReading(context, { action: "client.read", resource: clientId });
      const { client, credentials } = await getClient(deps, clientId);
      return { client: encodeClient(client, credentials) };
    },
    createClient: async ({ name, ownerUserId: ownerId, permissions, reason }, context) => {
      const wanted = { name, ownerId, permissions };
      return { client: encodeClient(await createClient(deps, wanted, context, actReason(reason))) };
    },
    changeClient: async ({ clientId, name, ownerUserId, permissions, status, reason }, context) => {
      const change = {
        clientId,
        name: name || undefined,
        ownerId: ownerUserId || undefined,
        permissions: permissions?.names,
        status: decodeStatus(status),
      };
      return { client: encodeClient(await changeClient(deps, change, context, actReason(reason))) };
    },
    deleteClient: async ({ clientId, reason }, context) => {
      await deleteClient(deps, clientId, context, actReason(reason));
      return {};
    },
    addClientCredential: async ({ clientId, kind, name, publicJwkJson, reason }, context) => {
      const wanted = { clientId, kind: decodeKind(kind), name, publicJwkJson };
      const { credential, secret } = await addCredential(deps, wanted, context, actReason(reason));
      return { credential: encodeCredential(credential), secret };
    },
    revokeClientCredential: async ({ clientId, credentialId, reason }, context) => {
      await revokeCredential(deps, { clientId, credentialId }, context, actReason(reason));
      return {};
    },
  });
}

const STATUSES: Record<ClientStatus, ProtoStatus> = {
  active: ProtoStatus.ACTIVE,
  disabled: ProtoStatus.DISABLED,
};
const KINDS: Record<CredentialKind, ProtoKind> = {
  public_key: ProtoKind.PUBLIC_KEY,
  secret: ProtoKind.SECRET,
  api_key: ProtoKind.API_KEY,
};

function encodeClient(client: MachineClient, credentials: readonly ClientCredential[] = []): ClientMessage {
  const { ownerId, status, ...rest } = client;
  return {
    ...rest,
    ownerUserId: ownerId ?? "",
    status: STATUSES[status],
    credentials: credentials.map(encodeCredential),
  };
}

function encodeCredential({ kind, lastUsedAt, keyId, ...credential }: ClientCredential): CredentialMessage {
  const shown = kind === "api_key" ? `gh_${keyId}` : keyId;
  return { ...credential, kind: KINDS[kind], keyId: shown, lastUsedAt: lastUsedAt ?? undefined };
}

function decodeStatus(message: ProtoStatus): ClientStatus | undefined {
  if (message === ProtoStatus.UNSPECIFIED) return undefined;
  return nameOf(STATUSES, message, "status");
}

function decodeKind(message: ProtoKind): CredentialKind {
  return nameOf(KINDS, message, "kind");
}

/** Rejects values of newer versions instead of ignoring them. */
function nameOf<N extends string, V>(names: Record<N, V>, value: V, field: string): N {
  const found = (Object.keys(names) as N[]).find((name) => names[name] === value);
  if (found !== undefined) return found;
  const fields = [{ field, code: "invalid_format", message: "is not known" }];
  throw new DomainError("validation_failed", undefined, { fields });
}
