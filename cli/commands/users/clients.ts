import { readFileSync } from "node:fs";
import { callUnary } from "#kit/rpc/rpc-client.ts";
import {
  ClientAdminServiceClient,
  type ClientCredential,
  ClientStatus,
  CredentialKind,
  type MachineClient,
} from "#proto/gatehouse/identity/v1/client_service.ts";
import type { Backend } from "../../backend.ts";
import type { Command } from "../../command.ts";
import { printable } from "../../printable.ts";
import { UsageError } from "../../usage-error.ts";
import { REASON_OPTION, reasonOf } from "../reason-option.ts";
import { table } from "../table.ts";
import { wholeNumber } from "../whole-number.ts";

const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 100;
const CHECK_WITH = "gatehouse clients show <id>";

type Work<R> = Parameters<typeof call<R>>[1];

function call<R>(
  backend: Backend,
  work: (
    client: ClientAdminServiceClient,
    context: Parameters<Parameters<Backend["call"]>[2]>[1],
  ) => Promise<R>,
): Promise<R> {
  return backend.call("identity-service", ClientAdminServiceClient, work);
}

const show =
  (clientId: string): Work<{ client: MachineClient | undefined }> =>
  (client, context) =>
    callUnary(client, client.getClient, { clientId }, context);

export const clientsList: Command = {
  name: "clients list",
  summary: "Show clients (programs), newest first, a page at a time",
  positionals: [],
  options: {
    owner: { type: "string", value: "user", description: "only this user's; none: whose owner is gone" },
    limit: { type: "string", value: "count", description: `1 to ${MAX_LIMIT}; default ${DEFAULT_LIMIT}` },
    cursor: { type: "string", value: "id", description: "continue after the previous page" },
  },
  async run({ values }, backend) {
    const limit = wholeNumber(values, "limit", { min: 1, max: MAX_LIMIT }) ?? DEFAULT_LIMIT;
    const request = { ownedBy: values.get("owner") ?? "", cursor: values.get("cursor") ?? "", limit };
    const answer = await call(backend, (client, context) =>
      callUnary(client, client.listClients, request, context),
    );
    const clients = answer.clients.map(clientView);
    const nextCursor = answer.nextCursor || null;
    const rows = clients.map(({ id, name, status, ownerId }) => [id, name, status, ownerId ?? "-"]);
    const more = nextCursor === null ? "" : `\nMore: --cursor ${nextCursor}`;
    return {
      text: `${table(["ID", "NAME", "STATUS", "OWNER"], rows)}${more}`,
      json: { clients, nextCursor },
    };
  },
};

export const clientsShow: Command = {
  name: "clients show",
  summary: "Show one client with its credentials",
  positionals: ["id"],
  options: {},
  async run({ positionals: [clientId = ""] }, backend) {
    const answer = await call(backend, show(clientId));
    const client = clientView(answer.client);
    const credentials = (answer.client?.credentials ?? []).map(credentialView);
    const facts = Object.entries(client).map(
      ([name, value]) => `${name.padEnd(12)}  ${printable([value ?? "-"].flat().join(" "))}`,
    );
    const rows = credentials.map(({ id, kind, name, keyId, lastUsedAt }) => [
      id,
      kind,
      name,
      keyId,
      lastUsedAt ?? "-",
    ]);
    const list = table(["CREDENTIAL", "KIND", "NAME", "KEY", "LAST USED"], rows);
    return { text: `${facts.join("\n")}\n\n${list}`, json: { client: { ...client, credentials } } };
  },
};

export const clientsCreate: Command = {
  name: "clients create",
  summary: "Make a client, which has no credential yet",
  positionals: ["name"],
  options: {
    owner: {
      type: "string",
      value: "user",
      description: "id of the user who answers for it",
      required: true,
    },
    permission: {
      type: "string",
      value: "name",
      description: "of the access file; repeatable",
      required: true,
      multiple: true,
    },
    ...REASON_OPTION,
  },
  checkWith: "gatehouse clients list",
  async run(input, backend) {
    const { values, lists } = input;
    const [name = ""] = input.positionals;
    const permissions = [...(lists.get("permission") ?? [])];
    const ownerUserId = values.get("owner") ?? "";
    const request = { name, ownerUserId, permissions, reason: reasonOf(input) };
    const answer = await call(backend, (client, context) =>
      callUnary(client, client.createClient, request, context),
    );
    const client = clientView(answer.client);
    return { text: `${client.id} was made`, json: { client } };
  },
};

export const clientsChange: Command = {
  name: "clients change",
  summary: "Change a client; disabling it, or fewer permissions, ends its tokens",
  positionals: ["id"],
  options: {
    name: { type: "string", value: "text", description: "another name" },
    owner: { type: "string", value: "user", description: "id of another owner" },
    permission: {
      type: "string",
      value: "name",
      description: "these permissions instead; repeatable",
      multiple: true,
    },
    disable: { type: "boolean", description: "it gets no tokens" },
    enable: { type: "boolean", description: "it gets tokens again" },
    ...REASON_OPTION,
  },
  checkWith: CHECK_WITH,
  async run(input, backend) {
    const { values, lists, flags } = input;
    const [clientId = ""] = input.positionals;
    if (flags.has("disable") && flags.has("enable")) throw new UsageError("--disable or --enable, not both");
    const names = [...(lists.get("permission") ?? [])];
    const request = {
      clientId,
      name: values.get("name") ?? "",
      ownerUserId: values.get("owner") ?? "",
      permissions: names.length === 0 ? undefined : { names },
      status: flags.has("disable")
        ? ClientStatus.DISABLED
        : flags.has("enable")
          ? ClientStatus.ACTIVE
          : ClientStatus.UNSPECIFIED,
      reason: reasonOf(input),
    };
    const answer = await call(backend, (client, context) =>
      callUnary(client, client.changeClient, request, context),
    );
    const client = clientView(answer.client);
    return { text: `${client.id} is ${client.status}`, json: { client } };
  },
};

export const clientsDelete: Command = {
  name: "clients delete",
  summary: "Delete a client with its credentials, and end its tokens",
  positionals: ["id"],
  options: { yes: { type: "boolean", description: "needed: it cannot be undone" }, ...REASON_OPTION },
  checkWith: CHECK_WITH,
  async run(input, backend) {
    const [clientId = ""] = input.positionals;
    if (!input.flags.has("yes")) throw new UsageError("This cannot be undone: repeat it with --yes");
    const request = { clientId, reason: reasonOf(input) };
    await call(backend, (client, context) => callUnary(client, client.deleteClient, request, context));
    return { text: `${clientId} is deleted`, json: { clientId } };
  },
};

export const clientsAddCredential: Command = {
  name: "clients add-credential",
  summary: "Add a credential: a public key, a secret or an API key; the latter two are shown this once",
  positionals: ["id"],
  options: {
    "public-key": { type: "string", value: "file", description: "a public JWK" },
    secret: { type: "boolean", description: "a new secret" },
    "api-key": { type: "boolean", description: "a new API key" },
    name: { type: "string", value: "text", description: "for people" },
    ...REASON_OPTION,
  },
  checkWith: CHECK_WITH,
  async run(input, backend) {
    const { values, flags } = input;
    const [clientId = ""] = input.positionals;
    const file = values.get("public-key");
    const kinds = [
      ...(file === undefined ? [] : [CredentialKind.PUBLIC_KEY]),
      ...(flags.has("secret") ? [CredentialKind.SECRET] : []),
      ...(flags.has("api-key") ? [CredentialKind.API_KEY] : []),
    ];
    const [kind] = kinds;
    if (kind === undefined || kinds.length > 1)
      throw new UsageError("one of --public-key, --secret and --api-key is needed");
    const publicJwkJson = file === undefined ? "" : readKey(file);
    const name = values.get("name") ?? "";
    const request = { clientId, kind, name, publicJwkJson, reason: reasonOf(input) };
    const answer = await call(backend, (client, context) =>
      callUnary(client, client.addClientCredential, request, context),
    );
    if (answer.credential === undefined) throw new Error("identity-service sent no credential");
    const credential = credentialView(answer.credential);
    const secret = answer.secret || null;
    return {
      text: [
        `Credential ${credential.id} was added${secret === null ? "" : ". Its secret, shown this once:"}`,
        ...(secret === null ? [] : [secret]),
      ].join("\n"),
      json: { credential, secret },
    };
  },
};

export const clientsRemoveCredential: Command = {
  name: "clients remove-credential",
  summary: "Revoke a credential and end its tokens",
  positionals: ["id", "credential"],
  options: REASON_OPTION,
  checkWith: CHECK_WITH,
  async run(input, backend) {
    const [clientId = "", credentialId = ""] = input.positionals;
    const request = { clientId, credentialId, reason: reasonOf(input) };
    await call(backend, (client, context) =>
      callUnary(client, client.revokeClientCredential, request, context),
    );
    return { text: `${credentialId} is revoked`, json: { clientId, credentialId } };
  },
};

function readKey(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    throw new UsageError(`${file} cannot be read`);
  }
}

const KIND_NAMES: ReadonlyMap<CredentialKind, string> = new Map([
  [CredentialKind.PUBLIC_KEY, "public_key"],
  [CredentialKind.SECRET, "secret"],
  [CredentialKind.API_KEY, "api_key"],
]);

export function clientView(client: MachineClient | undefined) {
  if (client === undefined) throw new Error("identity-service sent no client");
  const { id, name, ownerUserId, permissions, status, createdAt, changedAt } = client;
  return {
    id,
    name,
    ownerId: ownerUserId || null,
    permissions,
    status: status === ClientStatus.ACTIVE ? "active" : "disabled",
    createdAt: createdAt?.toISOString() ?? null,
    changedAt: changedAt?.toISOString() ?? null,
  };
}

function credentialView({ id, kind, name, keyId, createdAt, lastUsedAt }: ClientCredential) {
  return {
    id,
    kind: KIND_NAMES.get(kind) ?? "unknown",
    name,
    keyId,
    createdAt: createdAt?.toISOString() ?? null,
    lastUsedAt: lastUsedAt?.toISOString() ?? null,
  };
}
