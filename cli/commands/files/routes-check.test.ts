import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { run } from "../../run.ts";
import { COMMANDS } from "../commands.ts";

const folder = mkdtempSync(join(tmpdir(), "gatehouse-routes-check-"));
afterAll(() => rmSync(folder, { recursive: true }));

async function check(text: string | undefined, ...options: string[]) {
  const file = join(folder, text === undefined ? "absent.yaml" : "routes.yaml");
  if (text !== undefined) writeFileSync(file, text);
  const printed: Record<"out" | "error", string[]> = { out: [], error: [] };
  const code = await run(["routes", "check", file, ...options], COMMANDS, {
    environment: {},
    defaultHome: folder,
    writeOut: (line) => void printed.out.push(line),
    writeError: (line) => void printed.error.push(line),
  });
  return { code, out: printed.out.join(""), error: printed.error.join("") };
}

test("a valid routes file is listed", async () => {
  const { code, out } = await check(
    "routes: [{ prefix: /a, upstreams: ['http://a', 'http://b'], methods: { GET: { auth: public } } }]",
  );
  expect([code, out]).toEqual([0, expect.stringMatching(/\/a +GET +http:\/\/a http:\/\/b/)]);
});

test("the list says what each upstream gets as its token", async () => {
  const route = (prefix: string, said: string) =>
    `{ prefix: ${prefix}, upstream: 'http://a', ${said} methods: { GET: { roles: [USER] } } }`;
  const file = [route("/a", ""), route("/b", "audience: 'urn:b',"), route("/c", "passToken: false,")];
  const { out } = await check(`routes: [${file.join(", ")}]`);
  expect(out).toMatch(/\/a .* as it came\n.*\/b .* urn:b\n.*\/c .* none/);
});

test("with the gateway's hosts, an audience that is one of them is a problem", async () => {
  const text =
    "routes: [{ prefix: /a, upstream: 'http://a', audience: 'https://auth.example', methods: { GET: { roles: [USER] } } }]";
  expect(await check(text, "--host", "pay.example", "--host", "Auth.example")).toMatchObject({
    code: 78,
    error: expect.stringContaining("routes.0.audience: is the gateway's own origin"),
  });
  expect((await check(text, "--host", "pay.example")).code).toBe(0);
});

test("every problem of an invalid one is reported with its line", async () => {
  const { code, error } = await check("routes:\n  - prefix: /auth/x\n    methods: { GET: {} }\n");
  expect(code).toBe(78);
  expect(error).toMatch(/line 2, routes\.0\.prefix: is a path of the gateway itself/);
  expect(error).toMatch(/line 3, routes\.0\.methods\.GET: must have either permissions/);
  expect(error).toMatch(/routes\.0\.upstream: is required/);
});

test("an unreadable file has its own error code", async () => {
  expect(await check(undefined)).toMatchObject({ code: 78, error: expect.stringContaining("ENOENT") });
});
