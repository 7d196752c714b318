import { setTimeout as sleep } from "node:timers/promises";
import { logIn } from "./account.ts";
import { type AttackCase, call, must, NotPossible, type Target } from "./target.ts";

/** How long an answer of a gateway may go by what it knew before a revocation. */
const REVOCATION_MS = 1_500;

/** A client that holds all that the first administrator holds. */
async function newClient(target: Target) {
  if (target.adminPassword === undefined)
    throw new NotPossible("the first administrator's password is not readable");
  const admin = await logIn(target, "admin@gatehouse.example", target.adminPassword);
  must(admin.status === 200, `the administrator's login: ${admin.status}`);
  const token = admin.body.data.accessToken as string;
  const me = await call(target, "GET", "/auth/me", { token });
  const { user, permissions } = me.body.data as { user: { id: string }; permissions: string[] };
  const body = { name: "attack", ownerId: user.id, permissions };
  const made = await call(target, "POST", "/admin/clients", { token, body });
  must(made.status === 201, `clients: ${made.status} ${made.body.error?.code}`);
  const path = `/admin/clients/${made.body.data.client.id}`;
  const add = async (kind: string) => {
    const added = await call(target, "POST", `${path}/credentials`, { token, body: { kind } });
    must(added.status === 201, `credentials: ${added.status} ${added.body.error?.code}`);
    return added.body.data as { credential: { id: string }; secret: string };
  };
  const remove = (id: string) => call(target, "DELETE", `${path}/credentials/${id}`, { token, body: {} });
  return { id: made.body.data.client.id as string, add, remove };
}

const reads = async (target: Target, token: string) =>
  (await call(target, "GET", "/payments", { token })).status;

export const CLIENT_CASES: readonly AttackCase[] = [
  {
    name: "clients: an API key that was revoked stays refused, however often it is tried",
    run: async (target) => {
      const { add, remove } = await newClient(target);
      const { credential, secret } = await add("api_key");
      const before = await reads(target, secret);
      must(before !== 401, `the live key: ${before}`);
      must((await remove(credential.id)).status === 200, "the key was not revoked");
      for (const waitMs of [0, REVOCATION_MS, REVOCATION_MS]) {
        await sleep(waitMs);
        const tried = await reads(target, secret);
        must(tried === 401, `the revoked key: ${tried}`);
      }
    },
  },
  {
    name: "clients: all that an administrator can grant fits into a token that is accepted",
    run: async (target) => {
      const { id, add } = await newClient(target);
      const { secret } = await add("secret");
      const headers = {
        authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString("base64")}`,
        "content-type": "application/x-www-form-urlencoded",
      };
      const body = "grant_type=client_credentials";
      const issued = await call(target, "POST", "/oauth/token", { body, headers });
      must(issued.status === 200, `oauth/token: ${issued.status}`);
      const read = await reads(target, issued.body.access_token as string);
      must(read !== 401 && read < 500, `with the token: ${read}`);
    },
  },
];
