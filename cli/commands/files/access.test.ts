import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { run } from "../../run.ts";
import { COMMANDS } from "../commands.ts";

const folder = mkdtempSync(join(tmpdir(), "gatehouse-access-"));
afterAll(() => rmSync(folder, { recursive: true }));

function fileOf(name: string, text: string): string {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
}

async function gatehouse(...words: string[]) {
  const printed: Record<"out" | "error", string[]> = { out: [], error: [] };
  const code = await run(["--json", "access", ...words], COMMANDS, {
    environment: {},
    defaultHome: folder,
    writeOut: (line) => void printed.out.push(line),
    writeError: (line) => void printed.error.push(line),
  });
  const [out, error] = [printed.out.join(""), printed.error.join("")];
  return { code, json: out === "" ? undefined : JSON.parse(out), error };
}

const access = fileOf(
  "access.yaml",
  'permissions: [things:read]\nroles: { ADMIN: ["*"], USER: [], CLERK: [things:read, users:read] }\ndefaultRole: USER',
);
const routes = fileOf(
  "routes.yaml",
  `routes:
  - prefix: /things
    upstream: http://a
    methods:
      GET: { permissions: [things:read] }
      DELETE: { roles: [ADMIN], action: things.delete }
  - { prefix: /news, upstream: 'http://a', methods: { GET: { auth: public } } }`,
);

test("every problem of an access file is reported with its line", async () => {
  const file = fileOf("wrong.yaml", "roles: { USER: [a:b] }\ndefaultRole: NOBODY");
  const { code, error } = await gatehouse("check", file);
  expect(code).toBe(78);
  expect(error).toContain("line 1, roles.USER.0: is neither built in nor among permissions");
  expect(error).toContain("line 1, roles.ADMIN: must be");
  expect(error).toContain("line 2, defaultRole: is not among roles");
  expect((await gatehouse("check", access)).code).toBe(0);
  expect((await gatehouse("check", join(folder, "absent.yaml"))).error).toContain("ENOENT");
});

test.each([
  ["GET", "/admin/users", ["ADMIN", "CLERK"], true],
  ["head", "/v1/admin/users?limit=1", ["ADMIN", "CLERK"], true],
  ["DELETE", "/admin/users/7", ["ADMIN"], true],
  ["GET", "/admin/audit/checkpoint", ["ADMIN"], true],
  ["GET", "/auth/me", ["ADMIN", "USER", "CLERK"], false],
  ["POST", "/auth/login", ["ADMIN", "USER", "CLERK"], false],
  ["GET", "/things", ["ADMIN", "CLERK"], true],
  ["GET", "/v1/things/3/parts", ["ADMIN", "CLERK"], true],
  ["DELETE", "/things/3", ["ADMIN"], false],
  ["GET", "/news", ["ADMIN", "USER", "CLERK"], false],
  ["POST", "/oauth/introspect", [], false],
  ["POST", "/ssf/streams", [], true],
])("%s %s may be called by %j", async (method, path, roles, clients) => {
  const { code, json } = await gatehouse("who-can", method, path, "--access", access, "--routes", routes);
  expect(code).toBe(0);
  expect(json).toMatchObject({ roles, clients });
});

test("what is no route, and what is no method, is said", async () => {
  const of = (...words: string[]) => gatehouse("who-can", ...words, "--access", access, "--routes", routes);
  expect(await of("GET", "/thingsx")).toMatchObject({ code: 1, error: expect.stringContaining("no route") });
  expect((await of("PATCH", "/things")).code).toBe(1);
  expect((await of("GET", "/admin/users/")).code).toBe(1);
  expect((await of("TRACE", "/things")).code).toBe(64);
  expect((await of("GET", "things")).code).toBe(64);
});

test("names of a routes file that the access file does not have are warned of, by both checks, with the nearest name", async () => {
  const wrong = fileOf(
    "wrong-routes.yaml",
    "routes: [{ prefix: /things, upstream: 'http://a', methods: { GET: { permissions: [things:raed] } } }]",
  );
  const warning = "GET /things names things:raed, which the access file does not have; is it things:read?";
  expect((await gatehouse("check", access, "--routes", wrong)).json.warnings).toEqual([warning]);
  expect((await gatehouse("check", access, "--routes", routes)).json.warnings).toEqual([]);
  const printed: string[] = [];
  const environment = { ACCESS_FILE: access };
  const say = { writeOut: (text: string) => void printed.push(text), writeError: () => undefined };
  const code = await run(["routes", "check", wrong], COMMANDS, { environment, defaultHome: folder, ...say });
  expect(code).toBe(0);
  expect(printed.join("")).toContain(`Warning: ${warning}\nBy ${wrong} and ${access}.`);
});

test("every command reads the running home first, and says by which files it answers", async () => {
  const home = mkdtempSync(join(tmpdir(), "gatehouse-home-"));
  const empty = mkdtempSync(join(tmpdir(), "gatehouse-empty-"));
  onTestFinished(() => [home, empty].forEach((path) => void rmSync(path, { recursive: true })));
  const [own, forwarded] = [join(home, "access.yaml"), join(home, "routes.yaml")];
  writeFileSync(
    own,
    'permissions: [orders:read]\nroles: { ADMIN: ["*"], CLERK: [orders:read] }\ndefaultRole: CLERK',
  );
  writeFileSync(
    forwarded,
    "routes: [{ prefix: /orders, upstream: 'http://a', methods: { GET: { permissions: [orders:read] } } }]",
  );
  const say = async (words: string[], environment: Record<string, string> = {}, defaultHome = home) => {
    const printed: string[] = [];
    const write = (text: string) => void printed.push(text);
    await run(words, COMMANDS, { environment, defaultHome, writeOut: write, writeError: write });
    return printed.join("").trim();
  };
  const whoCan = ["access", "who-can", "GET", "/orders"];
  expect(await say(whoCan)).toMatch(/CLERK +yes/);
  const both = `By ${own} and ${forwarded}.`;
  const reversed = `By ${forwarded} and ${own}.`;
  expect((await say(whoCan)).split("\n").at(-1)).toBe(both);
  expect((await say(["access", "check"])).split("\n").at(-1)).toBe(both);
  for (const words of [
    ["routes", "check"],
    ["routes", "check", forwarded],
  ]) {
    expect(await say(words)).toContain(`\n${reversed}`);
    expect(await say(words)).not.toContain("Warning");
  }
  expect((await say(["routes", "list"])).split("\n").at(-1)).toBe(`By ${forwarded}.`);
  // The order is that of addresses: --home, the environment, the default home.
  const environment = { ACCESS_FILE: access, ROUTES_FILE: routes };
  expect(await say(whoCan, environment)).toContain(`no route of the gateway and of ${routes}`);
  expect(await say([...whoCan, "--home", home], environment)).toContain(both);
  expect(await say([...whoCan, "--access", access, "--home", home])).toContain(
    `By ${access} and ${forwarded}.`,
  );
  const users = ["access", "who-can", "GET", "/admin/users"];
  expect(await say(users, {}, empty)).toMatch(
    /\nBy .*access-file\/access\.yaml, which ships with Gatehouse\.$/,
  );
  expect(await say([...users, "--access", join(empty, "access.yaml")], {}, empty)).toContain(
    "cannot be read",
  );
});
