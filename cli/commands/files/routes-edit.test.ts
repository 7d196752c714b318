import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { parseRoutesFile } from "#routes-file/routes-file.ts";
import { run } from "../../run.ts";
import { COMMANDS } from "../commands.ts";

const START = `# Whose file this is.
routes:
  # The shop.
  - prefix: /shop # its path
    upstream: http://127.0.0.1:8081
    methods: { GET: { permissions: [payments:read] } }
  # The rest.
  - prefix: /rest
    upstreams: [http://a:1, http://b:1]
    methods: { GET: { auth: public } }
`;

let home: string;
let file: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "gatehouse-routes-"));
  file = join(home, "routes.yaml");
  writeFileSync(file, START);
});
afterEach(() => rmSync(home, { recursive: true }));

async function routes(...argv: string[]) {
  const printed: Record<"out" | "error", string> = { out: "", error: "" };
  const code = await run(["routes", ...argv, "--home", home], COMMANDS, {
    environment: {},
    defaultHome: "/no such home",
    writeOut: (text) => {
      printed.out += text;
    },
    writeError: (text) => {
      printed.error += text;
    },
  });
  return { code, ...printed, text: readFileSync(file, "utf8") };
}

const parsed = () => parseRoutesFile(readFileSync(file, "utf8"));

test("an added upstream may be called by users who are logged in, and gets tokens of its own", async () => {
  const { code, text, out } = await routes("add", "orders/v2", "http://127.0.0.1:3000");
  expect(code).toBe(0);
  expect(parsed()).toHaveLength(3);
  expect(parsed()[2]).toMatchObject({
    prefix: "/orders/v2",
    upstreams: ["http://127.0.0.1:3000"],
    audience: "orders-v2",
    methods: {
      GET: { auth: "authenticated" },
    },
  });
  expect(Object.keys(parsed()[2]?.methods ?? {})).toEqual(["GET"]);
  expect(out).toContain(
    "POST, PUT, PATCH, DELETE stay closed; to open one: gatehouse routes add /orders/v2 ",
  );
  expect(out).toContain('its verifier refuses them without the option audience: "orders-v2"');
  for (const comment of ["# Whose file this is.", "# The shop.", "# its path", "# The rest."]) {
    expect(text).toContain(comment);
  }
});

/** What the gateway does with a call: the permission that it demands, or 405. */
const demanded = (method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE") => {
  const route = parsed().find(({ prefix }) => prefix === "/orders");
  return route?.methods[method] ?? 405;
};

test("a reader makes no order: a permission without methods opens GET alone, and each method has its own", async () => {
  const reading = ["add", "orders", "http://o:1", "--permission", "orders:read", "--permission", "shop:see"];
  expect(await routes(...reading)).toMatchObject({ code: 0 });
  expect(demanded("GET")).toEqual({ auth: "authenticated", permissions: ["orders:read", "shop:see"] });
  expect(["POST", "PUT", "PATCH", "DELETE"].map((method) => demanded(method as "POST"))).toEqual([
    405, 405, 405, 405,
  ]);

  const writing = ["--permission", "post,PUT=orders:write", "--role", "DELETE=ADMIN"];
  const { out, text } = await routes("add", "orders", "http://o:1", ...writing);
  expect(demanded("GET")).toMatchObject({ permissions: ["orders:read", "shop:see"] });
  expect(demanded("POST")).toMatchObject({ permissions: ["orders:write"], action: "orders.create" });
  expect(demanded("PUT")).toMatchObject({ permissions: ["orders:write"], action: "orders.replace" });
  expect(demanded("DELETE")).toMatchObject({ auth: { roles: ["ADMIN"] } });
  expect(demanded("PATCH")).toBe(405);
  expect(out).toContain(
    "GET for callers with orders:read and shop:see; POST, PUT for callers with orders:write;",
  );
  expect(out).toContain("PATCH stay closed");
  expect(text).not.toMatch(/[&*]a\d/);
  expect(text).toContain("# The shop.");
});

test("one command opens several methods, each to its own callers, without aliases", async () => {
  const all = ["--public", "GET", "--authenticated", "POST,PUT", "--role", "PATCH,DELETE=ADMIN"];
  const { text, out } = await routes(
    "add",
    "orders",
    "http://o:1",
    "--strip-prefix",
    "--origin",
    "https://a.example",
    ...all,
  );
  expect(text).not.toMatch(/[&*]a\d/);
  expect(out).not.toContain("closed");
  expect(parsed()[2]).toMatchObject({
    stripPrefix: true,
    allowedOrigins: ["https://a.example"],
    methods: {
      GET: { auth: "public" },
      PUT: { auth: "authenticated" },
      PATCH: { auth: { roles: ["ADMIN"] } },
      DELETE: { auth: { roles: ["ADMIN"] } },
    },
  });
  await routes(
    "add",
    "orders",
    "http://o:1",
    "--origin",
    "https://b.example",
    "--origin",
    "https://a.example",
  );
  expect(parsed()[2]?.allowedOrigins).toEqual(["https://a.example", "https://b.example"]);
});

test.each([
  [["--permission", "orders:write=POST"], "is none of GET"],
  [["--permission", "=orders:write"], "nothing is none of GET"],
  [["--permission", "POST="], "permissions"],
  [["--public", "HEAD"], "GET includes HEAD"],
  [["--public", "GET", "--role", "USER"], "GET can have one of"],
  [["--public", "GET", "--authenticated", "GET"], "GET can have one of"],
  [["--public"], "--public"],
  [["--origin", "https://a.example/"], "must be an origin"],
])("%j is refused, and nothing is written", async (options, problem) => {
  const refused = await routes("add", "orders", "http://o:1", ...options);
  expect(refused).toMatchObject({ code: 64, error: expect.stringContaining(problem), text: START });
});

test("what is there is not replaced in passing: neither a policy nor the upstream nor another setting", async () => {
  const add = ["add", "shop", "http://127.0.0.1:8081"];
  expect(await routes(...add, "--permission", "payments:read")).toMatchObject({ code: 0, text: START });
  for (const options of [
    ["--public", "GET"],
    ["--permission", "payments:write"],
    ["--permission", "payments:read", "--permission", "b:c"],
    ["--strip-prefix"],
    ["--audience", "other"],
  ]) {
    const refused = await routes(...add, ...options, "--role", "POST=ADMIN");
    expect(refused).toMatchObject({ code: 64, error: expect.stringContaining("--replace"), text: START });
  }
  const elsewhere = await routes("add", "shop", "http://x:1", "--role", "POST=ADMIN");
  expect(elsewhere).toMatchObject({ code: 64, error: expect.stringContaining("the upstream"), text: START });
});

test("with --replace who may call a method changes, and its action and approval stay", async () => {
  const approval = "approval: { fields: [/amount] }";
  const post = `POST: { permissions: [a:b], action: orders.make, ${approval} }`;
  writeFileSync(
    file,
    `routes:\n  - prefix: /orders\n    upstream: http://o:1\n    methods:\n      ${post} # ours\n`,
  );
  const { text } = await routes("add", "orders", "http://o:1", "--replace", "--role", "POST=ADMIN");
  expect(text).toContain(
    "POST: { roles: [ ADMIN ], action: orders.make, approval: { fields: [ /amount ] } } # ours",
  );
});

test("an anchor of the file carries no permission to another method or route", async () => {
  for (const text of [
    "routes:\n  - { prefix: /a, upstream: http://a:1, methods: { GET: &g { roles: [USER] } } }\n  - { prefix: /b, upstream: http://b:1, methods: { GET: *g } }\n",
    "routes:\n  - { prefix: /a, upstream: http://a:1, methods: &m { GET: { roles: [USER] } } }\n  - { prefix: /b, upstream: http://b:1, methods: *m }\n",
    "routes:\n  - { prefix: /b, upstream: http://b:1, methods: &m { GET: { roles: [USER] } } }\n  - { prefix: /a, upstream: http://a:1, methods: *m }\n",
  ]) {
    writeFileSync(file, text);
    const options = text.includes("&g") ? ["--replace", "--public", "GET"] : ["--public", "POST"];
    const refused = await routes("add", "a", "http://a:1", ...options);
    expect(refused).toMatchObject({ code: 64, error: expect.stringContaining("by hand"), text });
  }
});

test("permissions that the home's own access file does not have are reported, and its own are not", async () => {
  writeFileSync(
    join(home, "access.yaml"),
    "permissions: [stock:read, 'payments:read']\nroles: { ADMIN: ['*'], USER: [stock:read, 'payments:read'] }\ndefaultRole: USER\n",
  );
  expect((await routes("add", "stock", "http://s:1", "--permission", "stock:read")).out).not.toContain(
    "Warning",
  );
  expect((await routes("add", "other", "http://s:1", "--permission", "stock:raed")).out).toContain(
    "Warning: GET /other names stock:raed",
  );
});

test("a path that is there keeps everything but its upstream, and its policy cannot be changed in passing", async () => {
  expect(await routes("add", "/rest", "http://127.0.0.1:3000")).toMatchObject({
    code: 0,
    out: expect.stringContaining("The rest of the route stays"),
  });
  expect(parsed()[1]).toMatchObject({
    upstreams: ["http://127.0.0.1:3000"],
    methods: { GET: { auth: "public" } },
  });
});

test("a removed path goes with its comment, and the others keep theirs", async () => {
  const { text } = await routes("remove", "shop");
  expect(parsed().map(({ prefix }) => prefix)).toEqual(["/rest"]);
  expect(text).not.toContain("The shop");
  expect(text).toContain("# The rest.");
  expect(await routes("remove", "shop")).toMatchObject({
    code: 64,
    error: expect.stringContaining("There are: /rest"),
  });
  await routes("remove", "rest");
  expect(parsed()).toEqual([]);
  await routes("add", "again", "http://x:1");
  expect(parsed().map(({ prefix }) => prefix)).toEqual(["/again"]);
});

test.each([
  ["a path of the gateway itself", ["add", "auth", "http://x:1"], "is a path of the gateway itself"],
  ["a path below another", ["add", "shop/old", "http://x:1"], "overlap"],
  ["an upstream with a path", ["add", "a", "http://x:1/api"], "must be an origin only"],
])("nothing is written for %s", async (_what, argv, problem) => {
  expect(await routes(...argv)).toMatchObject({
    code: 64,
    error: expect.stringContaining(problem),
    text: START,
  });
});

test("a file that the gateway would refuse already is not edited", async () => {
  writeFileSync(file, "routes: [{ prefix: /a }]\n");
  expect(await routes("add", "b", "http://x:1")).toMatchObject({
    code: 78,
    text: "routes: [{ prefix: /a }]\n",
  });
});

test.each([0o022, 0o077])("a link and the file's mode stay, also with the umask %o", async (mask) => {
  const former = process.umask(mask);
  onTestFinished(() => void process.umask(former));
  const target = join(home, "elsewhere.yaml");
  writeFileSync(target, "routes: []\n");
  chmodSync(target, 0o640);
  rmSync(file);
  symlinkSync(target, file);
  expect((await routes("add", "b", "http://x:1")).code).toBe(0);
  expect(statSync(target).mode & 0o777).toBe(0o640);
  expect(readFileSync(target, "utf8")).toContain("prefix: /b");
});

/** How users write: each with its quotes, its order and its white space. */
const STYLES = {
  shipped: `# Whose file this is.
routes:
  # The shop.
  - prefix: /shop   # its path
    upstream: "http://127.0.0.1:8081"
    methods:
      GET: { permissions: [payments:read] }
      DELETE: {roles: [ADMIN, 'USER'], action: shop.delete}
      # PATCH is not allowed.

  # The rest.
  - methods: {GET: {auth: public}}
    upstreams: [ 'http://a:1',  http://b:1 ]   # two
    prefix: '/rest'
`,
  "with dashes at the margin": `---
routes:
# The shop.
- prefix: "/shop"
  upstream: 'http://127.0.0.1:8081'
  methods:
    GET: {auth: public}
- prefix: /rest
  upstreams:
  - http://a:1
  - http://b:1   # the second
  methods: {GET: {auth: public}}
`,
};
const styles = Object.entries(STYLES);
const crlf = (text: string) => text.replaceAll("\n", "\r\n");

test.each(styles)(
  "a file %s: an added route leaves every other line as it was written",
  async (_how, written) => {
    for (const text of [written, crlf(written)]) {
      writeFileSync(file, text);
      const added = await routes("add", "orders", "http://127.0.0.1:3000");
      expect(added).toMatchObject({ code: 0, text: expect.stringMatching("orders") });
      expect(added.text.slice(0, text.length)).toBe(text);
      expect((await routes("remove", "orders")).text).toBe(text);
    }
  },
);

test.each(styles)(
  "a file %s: another upstream takes the place of the former one, with its quotes",
  async (_how, written) => {
    writeFileSync(file, written);
    const { text } = await routes("add", "shop", "http://c:1");
    expect(text).toBe(written.replace("http://127.0.0.1:8081", "http://c:1"));
    const former = /upstreams:(?: \[.*\]|(?:\n {2}- .*)+)/;
    const { text: single } = await routes("add", "rest", "http://d:1");
    expect(single.replace(/ *# (?:two|the second)/, "")).toBe(
      text.replace(former, "upstream: http://d:1").replace(/ *# two/, ""),
    );
  },
);

test.each(styles)("a file %s: a removed route takes its own lines only", async (_how, written) => {
  writeFileSync(file, written);
  const { text } = await routes("remove", "shop");
  const left = text.split("\n");
  expect(left.filter((line) => !written.split("\n").includes(line))).toEqual([]);
  expect(text).toContain(
    written
      .slice(written.indexOf("/rest") - 1, -1)
      .split("\n")
      .at(-1),
  );
  expect(text).not.toMatch(/shop/i);
});

test("a file whose lines cannot be kept is written anew, with its comments, its order and its quotes", async () => {
  const written = `routes:
-   methods: {GET: {auth: public}}


    upstream: 'http://a:1'   # one
    # above
    prefix: "/a"
`;
  writeFileSync(file, written);
  const { text, code } = await routes("add", "orders", "http://o:1");
  expect(code).toBe(0);
  expect(parsed().map(({ prefix }) => prefix)).toEqual(["/a", "/orders"]);
  const found = text.match(/methods: \{ GET|upstream: 'http:\/\/a:1' # one|# above|prefix: "\/a"/g);
  expect(found).toHaveLength(4);
});

test("no comment is lost where the library takes a line away", async () => {
  const written = `# The first.


routes:
  - prefix: /a
    # About the upstream.
    upstream: http://a:1
    methods: {GET: {auth: public}}
`;
  writeFileSync(file, written);
  const { text } = await routes("add", "a", "http://b:1");
  expect(text).toContain("# The first.");
  expect(text).toContain("# About the upstream.\n    upstream: http://b:1");
});
