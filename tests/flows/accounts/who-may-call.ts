import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { databaseOfSystem } from "../../support/database/system-database.ts";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import type { System } from "../../support/system/system.ts";

let system: System;
let api: ApiClient;

beforeAll(() => {
  system = oneSystem();
  api = apiClient(system.url);
});

interface Row {
  method: string;
  path: string;
  demands: string;
  /** By role, as the table says. */
  may: Map<string, boolean>;
}

/** The generated table. */
function documentedRows(): Row[] {
  const page = readFileSync(join(import.meta.dirname, "..", "..", "..", "docs", "access-routes.md"), "utf8");
  const roles = /^The roles are (.+)\.$/m.exec(page)?.[1]?.split(", ") ?? [];
  const rows = [...page.matchAll(/^\| (.+) \| (.*) \| (`.+`) \|$/gm)];
  return rows.flatMap(([, demands = "", names = "", routes = ""]) => {
    const may = new Map(roles.map((role) => [role, names === "all" || names.split(", ").includes(role)]));
    return routes.split(", ").map((route) => {
      const [method = "", path = ""] = route.replaceAll("`", "").split(" ");
      return { method, path, demands, may };
    });
  });
}

/** Ends the caller's session, so it comes last. */
const isLast = ({ path }: Row) => path === "/auth/logout";

test("every documented operation lets in the roles of the table, and no other", async () => {
  const rows = documentedRows().sort((a, b) => Number(isLast(a)) - Number(isLast(b)));
  const { body: document } = await api.get("/openapi.json");
  const documented = Object.entries(document.paths as Record<string, object>).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const inTable = new Set(rows.map(({ method, path }) => `${method} ${path}`));
  expect(documented.filter((operation) => !inTable.has(operation))).toEqual([]);

  await using database = await databaseOfSystem(system, "identity");
  const wrong: string[] = [];
  let refused = 0;
  for (const role of rows[0]?.may.keys() ?? []) {
    const user = await api.newUser();
    await database.sql`update users set role = ${role} where id = ${user.user.id}`;
    const { accessToken: token } = await api.logIn(user);
    for (const { method, path, demands, may } of rows) {
      if (/^a (?:service|client)/.test(demands)) continue;
      const url = path.replaceAll(/\{\w+\}/g, () => randomUUID());
      const body = method === "GET" ? {} : { body: { amount: -1 } };
      const { status, body: answer } = await api.call(method, url, { token, ...body });
      const isRefused = status === 403 && answer.error.code === "forbidden";
      const isUnknown = status === 401 && String(answer.error.code).startsWith("token_");
      if (isRefused) refused += 1;
      if (isRefused === may.get(role) || isUnknown) wrong.push(`${role} ${method} ${path}: ${status}`);
    }
  }
  expect(wrong).toEqual([]);
  expect(refused).toBeGreaterThan(30);
});
