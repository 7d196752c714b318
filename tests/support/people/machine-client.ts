import { randomUUID } from "node:crypto";
import { ADMIN } from "../system/system.ts";
import type { ApiClient } from "./api-client.ts";
import type { Revocable } from "./revocations.ts";

interface TestCredential {
  credential: { id: string; keyId: string };
  /** Empty of a public key. */
  secret: string;
}

/** A client of the first administrator, as the administrator sees it. */
export async function newMachineClient(api: ApiClient, permissions: readonly string[] = ["payments:read"]) {
  const admin = await api.logIn(ADMIN);
  const token = admin.accessToken;
  const body = { name: `Shop ${randomUUID()}`, ownerId: admin.user.id, permissions };
  const made = await api.post("/admin/clients", body, { token });
  if (made.status !== 201) throw new Error(`client: ${made.status} ${JSON.stringify(made.body)}`);
  const id: string = made.body.data.client.id;
  const credentials = `/admin/clients/${id}/credentials`;

  return {
    id,
    ownerId: admin.user.id,
    async add(credential: object): Promise<TestCredential> {
      const added = await api.post(credentials, credential, { token });
      if (added.status !== 201) throw new Error(`credential: ${added.status} ${JSON.stringify(added.body)}`);
      return added.body.data;
    },
    /** @returns the status. */
    async remove(credentialId: string): Promise<number> {
      return (await api.call("DELETE", `${credentials}/${credentialId}`, { token })).status;
    },
    change: (body: object) => api.call("PATCH", `/admin/clients/${id}`, { token, body }),
    /** The call that revokes a credential, and what it ends. */
    revocable: (accessToken: string, credentialId: string): Revocable => ({
      accessToken,
      end: { method: "DELETE", path: `${credentials}/${credentialId}`, accessToken: token },
    }),
  };
}

/** The answer of `POST /oauth/token` to `client_secret_basic`. */
export function requestToken(api: ApiClient, clientId: string, secret: string) {
  const authorization = `Basic ${Buffer.from(`${clientId}:${secret}`).toString("base64")}`;
  const headers = { authorization, "content-type": "application/x-www-form-urlencoded" };
  return api.call("POST", "/oauth/token", { headers, body: "grant_type=client_credentials" });
}
