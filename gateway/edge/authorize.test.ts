import { expect, test } from "vitest";
import { parseAccessFile } from "#access-file/access-file.ts";
import { AccessTable } from "#access-file/access-rules.ts";
import type { Principal } from "#token-client/principal.ts";
import { principalWith, send, testGateway } from "../testing/test-gateway.ts";
import { assertMayCall } from "./authorize.ts";

const file = (roles: string) =>
  parseAccessFile(`permissions: [a:read, a:write]\nroles: { ADMIN: ["*"], ${roles} }\ndefaultRole: USER`);
const READS = { auth: "authenticated", permissions: ["a:read"] } as const;
const BOTH = { auth: "authenticated", permissions: ["a:read", "a:write"] } as const;
const ANYBODY = { auth: "authenticated" } as const;
const client = (...scopes: string[]): Principal => ({
  ...principalWith(""),
  kind: "client",
  userId: "",
  scopes,
});

test.each([
  ["a user whose role holds it", READS, principalWith("USER"), undefined],
  ["a user whose role holds one of two", BOTH, principalWith("USER"), "forbidden"],
  ["an administrator", BOTH, principalWith("ADMIN"), undefined],
  ["a client that was granted both", BOTH, client("a:write", "a:read"), undefined],
  ["a client that was granted one of two", BOTH, client("a:read"), "forbidden"],
  ["a client that was granted *", READS, client("*"), "forbidden"],
  ["a client, where users are asked for", ANYBODY, client("a:read"), "forbidden"],
  ["a client, where a role is asked for", { auth: { roles: [""] } }, client("a:read"), "forbidden"],
  ["a user of a role that has gone", ANYBODY, principalWith("GONE"), "role_not_defined"],
  [
    "a user of a role that has gone and that a route names",
    { auth: { roles: ["GONE"] } },
    principalWith("GONE"),
    "role_not_defined",
  ],
] as const)("%s: %j, %j", (_who, policy, principal, code) => {
  const rules = new AccessTable(file("USER: [a:read]"));
  const attempt = () => assertMayCall(rules, policy, principal);
  if (code === undefined) expect(attempt).not.toThrow();
  else expect(attempt).toThrow(expect.objectContaining({ code }));
});

test("a change of the file decides the next call of the same token", async () => {
  const access = new AccessTable(file("USER: []"));
  const { app } = testGateway({
    access,
    users: { listUsers: async () => ({ users: [], nextCursor: "", total: 0, totalIs: 0 }) },
  });
  const call = async () => {
    const answer = await send(app, { url: "/admin/users", token: "support-token" });
    return answer.json().error?.code ?? answer.statusCode;
  };
  expect(await call()).toBe("role_not_defined");
  access.replace(file("USER: [], SUPPORT: []"));
  expect(await call()).toBe("forbidden");
  access.replace(file("USER: [], SUPPORT: [users:read]"));
  expect(await call()).toBe(200);
  access.replace(file("USER: [], SUPPORT: [users:unlock]"));
  expect(await call()).toBe("forbidden");
});
