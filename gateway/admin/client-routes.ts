import { z } from "zod";
import { filterText } from "#audit-client/stream/record-reading.ts";
import {
  type ClientCredential,
  ClientStatus,
  CredentialKind,
  type MachineClient,
} from "#proto/gatehouse/identity/v1/client_service.ts";
import type { TokenVerifier } from "#token-client/principal.ts";
import { idField, nextCursorField, statusField, timeField } from "../auth/answer-fields.ts";
import type { Backends } from "../backends/backends.ts";
import { success } from "../edge/answers/envelope.ts";
import { HTTP_CREATED } from "../edge/answers/http-errors.ts";
import type { NoteReading } from "../edge/audit.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { optional, textField, textLike } from "../routing/fields.ts";
import { answer, answersWith } from "../routing/route-docs.ts";
import type { AdminPolicy } from "../routing/route-policy.ts";
import { ActBody, changeWithReason, pageQuery, reasonField } from "./admin-fields.ts";

const uuid = z.uuid().toLowerCase();
const kindField = z.enum(["public_key", "secret", "api_key"]);
const nameField = textField(1, 100, { examples: ["Shop of ACME"] });
const permissionsField = z
  .array(textField(1, 64, { examples: ["payments:read"] }))
  .min(1)
  .max(100);
const credentialAnswer = z
  .strictObject({
    id: idField,
    kind: kindField,
    name: textLike("rotation of May"),
    keyId: textLike("gh_000102030405060708090a0b0c0d0e0f", "`kid`, or the start of an API key.").nullable(),
    createdAt: timeField,
    lastUsedAt: timeField.nullable(),
  })
  .meta({ id: "ClientCredential", description: "`lastUsedAt` is exact to a minute." });
const clientFields = {
  id: idField,
  name: textLike("Shop of ACME"),
  ownerId: idField.nullable(),
  permissions: z.array(textLike("payments:read")),
  status: statusField,
  createdAt: timeField,
  changedAt: timeField,
};
const clientAnswer = z
  .strictObject(clientFields)
  .meta({ id: "Client", description: "An account of a program." });
const clientWithCredentials = z
  .strictObject({ ...clientFields, credentials: z.array(credentialAnswer) })
  .meta({ id: "ClientWithCredentials" });

const ClientQuery = z.strictObject({
  owner: optional(
    z.union([z.literal("none"), uuid]).meta({
      description: "A user's id; `none`: those whose owner is gone or disabled.",
      examples: ["none"],
    }),
  ),
  ...pageQuery,
});
const ClientParams = z.strictObject({ id: uuid });
const CredentialParams = z.strictObject({ id: uuid, credentialId: uuid });
const reason = optional(reasonField);
const NewClient = z.strictObject({ name: nameField, ownerId: uuid, permissions: permissionsField, reason });
const ClientChange = changeWithReason({
  name: nameField,
  ownerId: uuid,
  permissions: permissionsField,
  status: statusField,
});
const credentialName = optional(textField(0, 100, { examples: ["rotation of May"] }));
const NewCredential = z.union([
  z.strictObject({
    kind: z.literal("public_key"),
    name: credentialName,
    /** identity-service checks it. */
    publicKey: z.looseObject({ kty: textField(1, 16, { examples: ["OKP"] }) }).meta({
      description: "A public JWK: Ed25519, P-256, or RSA of 2048 to 4096 bits.",
      examples: [{ kty: "OKP", crv: "Ed25519", x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" }],
    }),
    reason,
  }),
  z.strictObject({ kind: z.enum(["secret", "api_key"]), name: credentialName, reason }),
]);

interface ClientAdminDeps extends Pick<Backends, "clientAdmin"> {
  noteReading: NoteReading;
  verifier: Pick<TokenVerifier, "refuseSession">;
  adminPolicy: AdminPolicy;
}

/** The verifier refuses a revoked credential before the revocation stream does. */
export function registerClientAdminRoutes(
  app: GatewayApp,
  { clientAdmin, noteReading, verifier, adminPolicy }: ClientAdminDeps,
): void {
  const route = routeIn(app, "Clients");

  route("listClients", "GET", "/admin/clients", {
    summary: "List clients",
    policy: adminPolicy("clients:read"),
    schema: { querystring: ClientQuery },
    answers: answersWith(
      "A page of clients, newest first.",
      z.strictObject({ clients: z.array(clientAnswer), nextCursor: nextCursorField }),
    ),
    codes: ["audit_unavailable"],
    handler: async (request) => {
      const { owner: ownedBy = "", cursor = "", limit } = request.query;
      const filter = filterText({ owner: ownedBy, cursor, limit });
      await noteReading(request, { action: "client.listed", filter });
      const page = await clientAdmin.listClients({ ownedBy, cursor, limit }, request.state.call);
      const list = { clients: page.clients.map(toClient), nextCursor: page.nextCursor || null };
      return success(list, "Clients, newest first.");
    },
  });

  route("createClient", "POST", "/admin/clients", {
    summary: "Make a client",
    description: "It has no credential yet. Nobody gives a client a permission that they do not hold.",
    policy: { ...adminPolicy("clients:write"), action: "admin.clients.create" },
    schema: { body: NewClient },
    answers: { [HTTP_CREATED]: answer("The client.", z.strictObject({ client: clientAnswer })) },
    handler: async (request, reply) => {
      const { name, ownerId: ownerUserId, permissions, reason: why = "" } = request.body;
      const { client } = await clientAdmin.createClient(
        { name, ownerUserId, permissions, reason: why },
        request.state.call,
      );
      reply.code(HTTP_CREATED);
      return success({ client: toClient(client) }, "The client was made.");
    },
  });

  route("getClient", "GET", "/admin/clients/:id", {
    summary: "Show a client with its credentials",
    policy: adminPolicy("clients:read"),
    schema: { params: ClientParams },
    answers: answersWith("The client.", z.strictObject({ client: clientWithCredentials })),
    codes: ["not_found", "audit_unavailable"],
    handler: async (request) => {
      await noteReading(request, { action: "client.read" });
      const { client } = await clientAdmin.getClient({ clientId: request.params.id }, request.state.call);
      const credentials = (client?.credentials ?? []).map(toCredential);
      return success({ client: { ...toClient(client), credentials } }, "The client.");
    },
  });

  route("updateClient", "PATCH", "/admin/clients/:id", {
    summary: "Change a client",
    description:
      "What is absent stays. A disabled client and one with fewer permissions lose the tokens that they have; " +
      "their credentials get new ids.",
    policy: { ...adminPolicy("clients:write"), action: "admin.clients.update" },
    schema: { params: ClientParams, body: ClientChange },
    answers: answersWith("The client as it is now.", z.strictObject({ client: clientAnswer })),
    codes: ["not_found"],
    handler: async (request) => {
      const { name = "", ownerId: ownerUserId = "", permissions, status, reason: why = "" } = request.body;
      const change = {
        clientId: request.params.id,
        name,
        ownerUserId,
        permissions: permissions && { names: permissions },
        status: status === undefined ? ClientStatus.UNSPECIFIED : STATUSES[status],
        reason: why,
      };
      const { client } = await clientAdmin.changeClient(change, request.state.call);
      return success({ client: toClient(client) }, "The client was changed.");
    },
  });

  route("deleteClient", "DELETE", "/admin/clients/:id", {
    summary: "Delete a client",
    policy: { ...adminPolicy("clients:write"), action: "admin.clients.delete" },
    schema: { params: ClientParams, body: ActBody },
    answers: answersWith("The client is gone, and its tokens are refused."),
    codes: ["not_found"],
    handler: async (request) => {
      const { reason: why = "" } = request.body;
      await clientAdmin.deleteClient({ clientId: request.params.id, reason: why }, request.state.call);
      return success({}, "The client is gone.");
    },
  });

  route("addClientCredential", "POST", "/admin/clients/:id/credentials", {
    summary: "Add a public key, a secret or an API key",
    description: "At most two of each kind live at a time. A secret and an API key are shown this once.",
    policy: { ...adminPolicy("clients:write"), action: "admin.clients.credential_add" },
    schema: { params: ClientParams, body: NewCredential },
    answers: {
      [HTTP_CREATED]: answer(
        "The credential.",
        z.strictObject({
          credential: credentialAnswer,
          secret: textLike("cLKkYhN0m0bLw9vJk0cJX2mR8c5ZyS1tqv7bq3Q9d5E").nullable(),
        }),
      ),
    },
    codes: ["not_found", "conflict"],
    handler: async (request, reply) => {
      const { kind, name = "", reason: why = "" } = request.body;
      const publicJwkJson = "publicKey" in request.body ? JSON.stringify(request.body.publicKey) : "";
      const wanted = { clientId: request.params.id, kind: KINDS[kind], name, publicJwkJson, reason: why };
      const { credential, secret } = await clientAdmin.addClientCredential(wanted, request.state.call);
      reply.code(HTTP_CREATED);
      return success(
        { credential: toCredential(credential), secret: secret || null },
        "The credential was added.",
      );
    },
  });

  route("removeClientCredential", "DELETE", "/admin/clients/:id/credentials/:credentialId", {
    summary: "Revoke a credential",
    policy: { ...adminPolicy("clients:write"), action: "admin.clients.credential_remove" },
    schema: { params: CredentialParams, body: ActBody },
    answers: answersWith("It proves nothing any more, and its tokens are refused."),
    codes: ["not_found"],
    handler: async (request) => {
      const { id: clientId, credentialId } = request.params;
      const { reason: why = "" } = request.body;
      await clientAdmin.revokeClientCredential({ clientId, credentialId, reason: why }, request.state.call);
      verifier.refuseSession(credentialId);
      return success({}, "The credential was revoked.");
    },
  });
}

const STATUSES = { active: ClientStatus.ACTIVE, disabled: ClientStatus.DISABLED } as const;
const KINDS = {
  public_key: CredentialKind.PUBLIC_KEY,
  secret: CredentialKind.SECRET,
  api_key: CredentialKind.API_KEY,
} as const;

function toClient(message: MachineClient | undefined): z.output<typeof clientAnswer> {
  const status = statusField.options.find((name) => STATUSES[name] === message?.status);
  if (message?.createdAt === undefined || message.changedAt === undefined || status === undefined)
    throw new Error("identity-service sent a client that this gateway cannot read");
  const { id, name, ownerUserId, permissions, createdAt, changedAt } = message;
  const times = { createdAt: createdAt.toISOString(), changedAt: changedAt.toISOString() };
  return { id, name, ownerId: ownerUserId || null, permissions, status, ...times };
}

function toCredential(message: ClientCredential | undefined): z.output<typeof credentialAnswer> {
  const kind = kindField.options.find((name) => KINDS[name] === message?.kind);
  if (message?.createdAt === undefined || kind === undefined)
    throw new Error("identity-service sent a credential that this gateway cannot read");
  const { id, name, keyId, createdAt, lastUsedAt } = message;
  const times = { createdAt: createdAt.toISOString(), lastUsedAt: lastUsedAt?.toISOString() ?? null };
  return { id, kind, name, keyId: keyId || null, ...times };
}
