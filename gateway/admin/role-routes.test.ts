import { expect, test } from "vitest";
import { send, testGateway } from "../testing/test-gateway.ts";

interface Role {
  name: string;
  permissions: string[];
  assignable: boolean;
  actable: boolean;
  mayActOn: string[];
}

async function rolesFor(token: string): Promise<Record<string, Role>> {
  const answer = await send(testGateway().app, { url: "/admin/roles", token });
  expect(answer.statusCode).toBe(200);
  const { roles } = answer.json().data as { roles: Role[] };
  return Object.fromEntries(roles.map((role) => [role.name, role]));
}

test.each(["user-token", "auditor-token"])("%s, who may not read users, sees no roles", async (token) => {
  expect((await send(testGateway().app, { url: "/admin/roles", token })).statusCode).toBe(403);
});

test("an administrator may give every role, and act on everybody", async () => {
  const roles = await rolesFor("admin-token");
  expect(Object.keys(roles)).toEqual(["USER", "SUPPORT", "AUDITOR", "ADMIN"]);
  for (const role of Object.values(roles)) expect(role).toMatchObject({ assignable: true, actable: true });
  expect(roles.AUDITOR?.permissions).toEqual(["audit:read", "audit:read:user"]);
  const below = Object.values(roles).map(({ name, mayActOn }) => [name, mayActOn]);
  expect(Object.fromEntries(below)).toEqual({
    USER: ["USER"],
    SUPPORT: ["USER", "SUPPORT"],
    AUDITOR: ["USER", "AUDITOR"],
    ADMIN: ["USER", "SUPPORT", "AUDITOR", "ADMIN"],
  });
});

test("support gives no role, and acts on nobody who may administer more", async () => {
  const roles = Object.values(await rolesFor("support-token"));
  expect(roles.filter(({ assignable }) => assignable)).toEqual([]);
  expect(roles.filter(({ actable }) => actable).map(({ name }) => name)).toEqual(["USER", "SUPPORT"]);
});
