import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { importedFrom } from "../support/house/imported-from.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");
/** Messages that are not of Gatehouse. */
const GOOGLES = "proto/gen/google/";
const SERVICES = ["gateway", "identity-service", "token-service", "audit-service", "event-service"];
const KIT = "packages/service-kit";
const CLIENTS = ["packages/token-client", "packages/audit-client"];
/** What some services share, besides the kit. */
const SHARED = ["access-file", "routes-file", "rate-limit", "breach-list", "outbound-http"].map(
  (name) => `packages/${name}`,
);
/** What mails and pages have in common. */
const DEVICES = "packages/service-kit/values/name-device.ts";
const EXAMPLES = "clients/examples";
const SOURCE_FOLDERS = [KIT, ...CLIENTS, ...SHARED, ...SERVICES, "cli", EXAMPLES, "deploy"];

interface SourceFile {
  /** From the root, with slashes. */
  path: string;
  text: string;
  imports: string[];
}

function typescriptFiles(...folders: string[]): SourceFile[] {
  return folders.flatMap((folder) => {
    const names = readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" });
    return names
      .filter((name) => /\.tsx?$/.test(name) && !/(^|\/)(node_modules|dist)\//.test(name))
      .map((name) => readSource(join(folder, name)));
  });
}

/** Without tests. */
function sourceFiles(...folders: string[]): SourceFile[] {
  return typescriptFiles(...folders).filter(({ path }) => !path.endsWith(".test.ts"));
}

function readSource(path: string): SourceFile {
  const text = readFileSync(join(ROOT, path), "utf8");
  const specifiers = [...text.matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g)].map((match) => match[1] ?? "");
  return { path, text, imports: specifiers.map((specifier) => importedFrom(path, specifier)) };
}

/** A package counts as a folder of its own, and what is for one kind of client. */
const topFolder = (path: string) =>
  /^(?:packages|clients)\/[^/]+/.exec(path)?.[0] ?? path.split("/")[0] ?? "";
const baseName = (path: string) => path.split("/").at(-1) ?? "";

function offences(files: SourceFile[], isForbidden: (target: string, file: SourceFile) => boolean): string[] {
  return files.flatMap((file) =>
    file.imports
      .filter((target) => isForbidden(target, file))
      .map((target) => `${file.path} imports ${target}`),
  );
}

test("every source folder has files, so that no rule below passes by looking at nothing", () => {
  for (const folder of SOURCE_FOLDERS) {
    expect(sourceFiles(folder), folder).not.toEqual([]);
  }
});

test("no service imports another, nor anything that is built on services", () => {
  const others = [...SERVICES, "cli", EXAMPLES, "deploy", "tests"];
  const found = offences(
    sourceFiles(...SERVICES),
    (target, { path }) => others.includes(topFolder(target)) && topFolder(target) !== topFolder(path),
  );
  expect(found).toEqual([]);
});

/**
 * The rooms of a folder, in their order: a file imports only from its own room and from those further right. Rooms in one
 * entry do not know each other. `(root)` is the service's own folder, `(main)` its `main.ts`.
 */
const ROOMS: Readonly<Record<string, readonly string[]>> = {
  "identity-service": [
    "(main)",
    "process",
    "(root)",
    "accounts",
    "oauth",
    "ownership",
    "step-up",
    "login admin approvals imports",
    "clients",
    "passkeys",
    "mfa",
    "passwords",
    "sessions",
    "mail",
    "throttle",
    "identities",
    "users",
    "audit",
  ],
  gateway: [
    "(main)",
    "(root)",
    "admin services oauth-server",
    "auth proxy openapi pages",
    "edge",
    "routing",
    "limits",
    "backends",
  ],
  "audit-service": ["(main)", "(root)", "query", "log", "intake", "logs", "entries"],
  "event-service": ["(main)", "(root)", "manage", "delivery siem", "endpoints", "stream"],
  cli: ["(main)", "commands", "approval-verifier user-files doctor", "(root) audit-verifier"],
  "token-service": [
    "(main)",
    "(root)",
    "sessions",
    "tokens",
    "parts",
    "rows",
    "keys",
    "revocations",
    "events",
  ],
  "gateway/edge": ["(root)", "request", "answers", "proofs"],
  "packages/service-kit": ["process", "database redis rpc", "config", "telemetry", "values"],
  "packages/audit-client": ["record", "spool", "stream"],
};

function roomOf(path: string, base: string): string {
  const [room = "", file] = path.slice(base.length + 1).split("/");
  if (file !== undefined) return room;
  return room === "main.ts" ? "(main)" : "(root)";
}

/** Not what only tests use. */
function productionFiles(...folders: string[]): SourceFile[] {
  return sourceFiles(...folders).filter(
    ({ path }) => !/\.(fixture|contract)\.ts$/.test(path) && !path.includes("/testing/"),
  );
}

test.each(Object.entries(ROOMS))("the rooms of %s know only those to their right: %j", (service, order) => {
  const room = (path: string) => roomOf(path, service);
  const rank = (path: string) => order.findIndex((entry) => entry.split(" ").includes(room(path)));
  const files = productionFiles(service);
  expect(files.filter(({ path }) => rank(path) === -1).map(({ path }) => path)).toEqual([]);
  const rooms = new Set(files.map(({ path }) => room(path)));
  expect([...rooms].sort()).toEqual(order.flatMap((entry) => entry.split(" ")).sort());
  const found = offences(
    files,
    (target, { path }) =>
      target.startsWith(`${service}/`) && room(target) !== room(path) && rank(target) <= rank(path),
  );
  expect(found).toEqual([]);
});

test.each(Object.keys(ROOMS).filter((folder) => folder !== "cli"))(
  "docs/architecture.md lists the rooms of %s in their order",
  (folder) => {
    const page = readFileSync(join(ROOT, "docs", "architecture.md"), "utf8");
    const [, table = ""] = page.split(`| ${folder} | What it holds |\n| --- | --- |\n`);
    const rows = table.split("\n\n")[0]?.split("\n") ?? [];
    const listed = rows.map((row) =>
      [...(row.split("|")[1] ?? "").matchAll(/`([\w-]+)\/`/g)].map(([, name]) => name).sort(),
    );
    const order = ROOMS[folder]?.filter((entry) => !entry.startsWith("(")) ?? [];
    expect(listed).toEqual(order.map((entry) => entry.split(" ").sort()));
  },
);

const MAX_ENTRIES = 40;
/** The runbooks: who is called at night finds one by the name of the alert. */
const FLAT = ["docs/operations/runbooks"];

test.skipIf(trackedFiles() === undefined)(`no folder has more than ${MAX_ENTRIES} entries`, () => {
  const entries = new Map<string, Set<string>>();
  for (const path of trackedFiles() ?? []) {
    const parts = path.split("/");
    parts.forEach((name, depth) => {
      const folder = parts.slice(0, depth).join("/");
      entries.set(folder, (entries.get(folder) ?? new Set()).add(name));
    });
  }
  const full = [...entries].filter(([folder, names]) => names.size > MAX_ENTRIES && !FLAT.includes(folder));
  expect(full.map(([folder, names]) => `${folder}: ${names.size}`)).toEqual([]);
});

test("what only tests use is imported by tests only", () => {
  const found = offences(productionFiles(KIT, ...CLIENTS, ...SHARED, ...SERVICES, "cli"), (target) =>
    /\.(fixture|contract|test)\.ts$|\/testing\//.test(target),
  );
  expect(found).toEqual([]);
});

test("an import stays in its folder, or names another one by the import map", () => {
  const everywhere = typescriptFiles(...SOURCE_FOLDERS, "tests", "trials", "clients", "web");
  const aliasOf = (path: string) => (path.startsWith("clients/") ? "clients" : topFolder(path));
  const climbing = everywhere.flatMap(({ path, text }) =>
    [...text.matchAll(/(?:from|import)\s*\(?\s*"(\.\.[^"]+)"/g)]
      .map(([, specifier = ""]) => importedFrom(path, specifier))
      .filter((target) => aliasOf(target) !== aliasOf(path) && target.includes("/"))
      .map((target) => `${path} imports ${target}`),
  );
  expect(climbing).toEqual([]);
});

test("no file imports itself in a circle", () => {
  const files = new Map(sourceFiles(...SOURCE_FOLDERS).map((file) => [file.path, file]));
  const circles: string[] = [];
  const done = new Set<string>();
  const visit = (path: string, way: readonly string[]) => {
    if (way.includes(path)) circles.push([...way.slice(way.indexOf(path)), path].join(" > "));
    if (done.has(path)) return;
    done.add(path);
    for (const target of files.get(path)?.imports ?? []) visit(target, [...way, path]);
  };
  for (const path of files.keys()) visit(path, []);
  expect(circles).toEqual([]);
});

const MIN_LINES = 20;
const isProgram = (path: string) => baseName(path) === "main.ts" || path.startsWith("deploy/image/");

/** Who imports what, by the path that is imported. */
function importersIn(files: SourceFile[]): Map<string, string[]> {
  const importers = new Map<string, string[]>();
  for (const { path, imports } of files) {
    for (const target of imports) importers.set(target, [...(importers.get(target) ?? []), path]);
  }
  return importers;
}

test("a file of fewer than 20 lines has several importers, or stands in its only one", () => {
  const files = productionFiles(...SOURCE_FOLDERS);
  const importers = importersIn(files);
  const production = new Set(files.map(({ path }) => path));
  const inTests = importersIn(
    typescriptFiles(...SOURCE_FOLDERS, "tests").filter(({ path }) => !production.has(path)),
  );
  const found = files.filter(({ path, text }) => {
    const [importer, ...others] = importers.get(path) ?? [];
    if (importer === undefined || others.length > 0) return false;
    // A program runs when it is imported, so what tests need of it stands beside it.
    const isForTests = isProgram(importer) && inTests.has(path);
    return text.trimEnd().split("\n").length < MIN_LINES && !isForTests;
  });
  expect(found.map(({ path }) => path)).toEqual([]);
});

test("service-kit imports nothing of ours but itself, and Google's error details", () => {
  const ours = [...SERVICES, ...CLIENTS, ...SHARED, "proto", "cli", EXAMPLES, "deploy", "tests"];
  const isOurs = (target: string) => ours.includes(topFolder(target)) && !target.startsWith(GOOGLES);
  expect(offences(sourceFiles(KIT), isOurs)).toEqual([]);
});

test.each(CLIENTS)("%s imports service-kit and generated code only", (client) => {
  const ours = [...SERVICES, ...CLIENTS, ...SHARED, "cli", EXAMPLES, "deploy", "tests"].filter(
    (folder) => folder !== client,
  );
  expect(offences(sourceFiles(client), (target) => ours.includes(topFolder(target)))).toEqual([]);
});

test.each(SHARED)("%s imports service-kit only", (folder) => {
  const ours = [...SERVICES, ...CLIENTS, ...SHARED, "proto", "cli", EXAMPLES, "deploy", "tests"].filter(
    (other) => other !== folder,
  );
  expect(offences(sourceFiles(folder), (target) => ours.includes(topFolder(target)))).toEqual([]);
});

test("pages import nothing of ours but pages, the library for browsers, the API document's types and names of devices", () => {
  const ours = [...SOURCE_FOLDERS, "proto", "tests", "trials"];
  const pages = sourceFiles("web").map((file) => ({
    ...file,
    imports: file.imports.filter(isValueIn(file)),
  }));
  const isLibrary = (target: string) => /^clients\/(?:browser|api)\//.test(target) || target === DEVICES;
  const isOurs = (target: string) =>
    (ours.includes(topFolder(target)) || target.startsWith("clients/")) && !isLibrary(target);
  expect(pages.length).toBeGreaterThan(30);
  expect(offences(pages, isOurs)).toEqual([]);
  const isOutside = (target: string) => isOurs(target);
  const below = {
    ui: [],
    session: ["ui"],
    portal: ["ui", "session"],
    console: ["ui", "session", "audit-proof"],
  };
  for (const [folder, allowed] of Object.entries(below)) {
    const files = sourceFiles("web").filter(({ path }) => path.startsWith(`web/${folder}/`));
    const isAllowed = (target: string) =>
      [folder, ...allowed].some((name) => target.startsWith(`web/${name}/`));
    expect(
      offences(files, (target) => isOutside(target) || (topFolder(target) === "web" && !isAllowed(target))),
    ).toEqual([]);
  }
  const others = sourceFiles(...SOURCE_FOLDERS.filter((folder) => folder !== "deploy"));
  expect(offences(others, (target) => topFolder(target) === "web")).toEqual([]);
});

/** Whether an import of a file is more than types, which are erased. */
function isValueIn({ path, text }: SourceFile): (target: string) => boolean {
  const types = [...text.matchAll(/import type [^;]*? from "([.#][^"]+)";/g)].map(([, specifier = ""]) =>
    importedFrom(path, specifier),
  );
  return (target) => !types.includes(target);
}

test("nothing imports the verifiers of other repositories", () => {
  expect(
    offences(sourceFiles(...SOURCE_FOLDERS), (target) =>
      /^clients\/(?:node|go|python|java|conformance)\//.test(target),
    ),
  ).toEqual([]);
});

test("the command line imports no service", () => {
  expect(offences(sourceFiles("cli"), (target) => SERVICES.includes(topFolder(target)))).toEqual([]);
});

test("the audit verifier imports nothing of ours but itself: it shares no line with what writes the log", () => {
  const files = sourceFiles("cli").filter(({ path }) => path.startsWith("cli/audit-verifier/"));
  expect(files.length).toBeGreaterThan(5);
  const found = offences(
    files,
    (target) => !target.startsWith("node:") && !target.startsWith("cli/audit-verifier/"),
  );
  expect(found).toEqual([]);
});

test("generated code is imported by adapters only; of the gateway by its clients and its routes", () => {
  const isAdapter = (path: string) =>
    CLIENTS.includes(topFolder(path)) ||
    /^gateway\/(backends|auth|admin|services|oauth-server|testing)\//.test(path) ||
    /(-rpc|-client|-message|main)\.ts$/.test(path) ||
    topFolder(path) === "cli";
  const found = offences(
    sourceFiles(...SOURCE_FOLDERS),
    (target, { path }) => target.startsWith("proto/gen/") && !target.startsWith(GOOGLES) && !isAdapter(path),
  );
  expect(found).toEqual([]);
});

test("an RPC adapter of identity-service decodes, calls one use case and encodes", () => {
  const adapters = sourceFiles("identity-service").filter(({ path }) =>
    /^identity-service\/[\w-]+-rpc\.ts$/.test(path),
  );
  expect(adapters.length).toBeGreaterThan(4);
  const isLogic = (target: string) => /-store\.ts$|\/metrics\.ts$|\/postgres\.ts$|\/throttle\//.test(target);
  // A type of a store's row is what the adapter encodes.
  const importing = adapters.flatMap(({ path, text }) =>
    [...text.matchAll(/^import (?!type).*from "([^"]+)";$/gm)]
      .map(([, target = ""]) => target)
      .filter(isLogic)
      .map((target) => `${path} imports ${target}`),
  );
  const calling = adapters.flatMap(({ path, text }) => {
    const own = text.replaceAll(/^ {4}\.\.\.create.*$/gm, "");
    const methods = own.split(/^ {4}(?=\w+: (?:async )?\()/m).slice(1);
    return methods
      .filter((method) => (method.split(/^ {2}\}/m)[0]?.match(/\b[a-z]\w+\(deps\b/g) ?? []).length !== 1)
      .map((method) => `${path}: ${method.split(":")[0]}`);
  });
  expect([...importing, ...calling]).toEqual([]);
});

test("SQL is in stores only", () => {
  const sql = /(?:sql|tx|connection)(?:<[^`]*>)?`|\.unsafe\(/;
  const inKit = [
    "packages/service-kit/database/migrate.ts",
    "packages/service-kit/database/postgres.ts",
    "packages/service-kit/database/postgres-js-internals.ts",
    "packages/service-kit/database/connection-pool.ts",
  ];
  const isAllowed = ({ path }: SourceFile) =>
    path.endsWith("-store.ts") ||
    path.includes("/testing/") ||
    topFolder(path) === "deploy" ||
    inKit.includes(path);
  const found = sourceFiles(...SOURCE_FOLDERS).filter((file) => sql.test(file.text) && !isAllowed(file));
  expect(found.map(({ path }) => path)).toEqual([]);
});

test("the database driver is used by the kit's pool alone: its own transactions end the process with their connection", () => {
  const mayImport = [
    "packages/service-kit/database/connection-pool.ts",
    "packages/service-kit/database/postgres.ts",
    "packages/service-kit/database/postgres-js-internals.ts",
    "deploy/image/trial.ts",
  ];
  const importing = offences(
    sourceFiles(...SOURCE_FOLDERS),
    (target, { path }) => target === "postgres" && !mayImport.includes(path),
  );
  const own = /\.(begin|reserve)\((async )?\(?\w* ?\)? ?=>|\.reserve\(\)/;
  const beginning = sourceFiles(...SOURCE_FOLDERS).filter(
    ({ path, text }) => own.test(text) && path !== "packages/service-kit/database/postgres.ts",
  );
  expect(importing).toEqual([]);
  expect(beginning.map(({ path }) => path)).toEqual([]);
});

test("failures of the database are named by its handle alone: no other file wraps its calls or looks at a connection's codes", () => {
  const codes =
    /orUnavailable|isUnavailable|nameFailures|"(CONNECTION_[A-Z]+|08\d{3}|53\d{3}|57\w{3}|55P03|40001|40P01|25006)"/;
  const mayName = [
    "packages/service-kit/database/database-failure.ts",
    "packages/service-kit/database/postgres.ts",
    "packages/service-kit/database/connection-pool.ts",
    "packages/service-kit/database/database-socket.ts",
    "deploy/local/postgres/embedded-postgres.ts", // has a driver of its own
  ];
  const naming = sourceFiles(...SOURCE_FOLDERS, "tests", "trials").filter(
    ({ path, text }) => codes.test(text) && !mayName.includes(path),
  );
  expect(naming.map(({ path }) => path)).toEqual([]);
});

test("a process's environment is read in main.ts and in launchers only", () => {
  const isAllowed = (path: string) => baseName(path) === "main.ts" || topFolder(path) === "deploy";
  const found = sourceFiles(...SOURCE_FOLDERS).filter(
    ({ path, text }) => text.includes("process.env") && !isAllowed(path),
  );
  expect(found.map(({ path }) => path)).toEqual([]);
});

test("Fastify is imported in gateway, in examples and in token-client's plugin only", () => {
  const found = offences(
    sourceFiles(...SOURCE_FOLDERS),
    (target, { path }) =>
      /^(@fastify\/.+|fastify(-plugin)?)$/.test(target) &&
      !["gateway", EXAMPLES].includes(topFolder(path)) &&
      path !== "packages/token-client/fastify-bearer-auth.ts",
  );
  expect(found).toEqual([]);
});

test("identity-service signs nothing by jose", () => {
  const signing = /\b(?:Compact|General|Flattened)?(?:Sign|SignJWT|Encrypt)\b/;
  const users = sourceFiles("identity-service").filter(({ imports }) => imports.includes("jose"));
  expect(users).not.toEqual([]);
  expect(users.filter(({ text }) => signing.test(text)).map(({ path }) => path)).toEqual([]);
});

test.each([
  ["@node-rs/argon2", ["identity-service"]],
  ["@node-rs/bcrypt", ["identity-service"]],
  ["otplib", ["identity-service"]],
  ["openid-client", ["identity-service"]],
  ["nodemailer", ["identity-service"]],
  // identity-service verifies the assertions of clients.
  ["jose", ["token-service", "identity-service"]],
  ["ioredis", ["packages/service-kit", "token-service", "gateway", "identity-service"]],
] as const)("%s is imported in %j only", (library, folders) => {
  const found = offences(
    sourceFiles(...SOURCE_FOLDERS),
    (target, { path }) => target === library && !(folders as readonly string[]).includes(topFolder(path)),
  );
  expect(found).toEqual([]);
});

test("HTTP statuses are chosen in one file of the gateway, gRPC statuses in one file of service-kit", () => {
  const isRpcFile = (path: string) => /^packages\/service-kit\/(rpc\/|process\/health-)/.test(path);
  const http = sourceFiles("gateway").filter(
    ({ path, text }) =>
      /\b(status|code)\((4|5)\d\d\)/.test(text) && path !== "gateway/edge/answers/http-errors.ts",
  );
  const rpc = sourceFiles(...SOURCE_FOLDERS).filter(
    ({ path, text }) => /\bstatus\.[A-Z_]{4,}\b/.test(text) && !isRpcFile(path),
  );
  expect([...http, ...rpc].map(({ path }) => path)).toEqual([]);
});

/** The writable fields and the others: their objects have fields, too. */
function fieldsOfRequestState(): string[] {
  const { text } = readSource("gateway/edge/request/request-state.ts");
  const [, fields = ""] = /class RequestState \{(.*?)constructor/s.exec(text) ?? [];
  return [...fields.matchAll(/^ {2}(?:readonly )?(\w+):? /gm)].map(([, name = ""]) => name);
}

test("the state of a request is written in gateway/edge only, and read-only for others", () => {
  const fields = fieldsOfRequestState();
  expect(fields).toEqual(
    expect.arrayContaining(["call", "phase", "proof", "audit", "errorCode", "isEffectUncertain"]),
  );
  const assignment = String.raw`\s*(?:[-+&|?]{0,2}=(?![=>])|\+\+|--)`;
  const write = new RegExp(
    String.raw`\bwritableState\b|\brequest\.state${assignment}|\bstate\??\.(?:${fields.join("|")})\b[\w.?]*${assignment}`,
  );
  const isWriting = ({ text }: SourceFile) => write.test(text);
  const [inside, outside] = [true, false].map((isEdge) =>
    sourceFiles("gateway").filter(({ path }) => path.startsWith("gateway/edge/") === isEdge),
  );
  expect(inside?.filter(isWriting).length).toBeGreaterThan(5);
  expect(outside?.filter(isWriting).map(({ path }) => path)).toEqual([]);
});

test("a function whose name ends in `Of` reads something off its argument: it waits for nothing", () => {
  const waiting = /async function (\w+Of)\(|function (\w+Of)\([^{;]*?\): Promise</g;
  const found = productionFiles(KIT, ...CLIENTS, ...SHARED, ...SERVICES, "cli").flatMap(({ path, text }) =>
    [...text.matchAll(waiting)].map(([, name, other]) => `${path}: ${name ?? other}`),
  );
  expect(found).toEqual([]);
});

test("identity-service has few interfaces of what functions need: those of a folder share one", () => {
  const defined = productionFiles("identity-service").flatMap(({ path, text }) =>
    [...text.matchAll(/^(?:export )?(?:interface|type) \w+Deps\b/gm)].map(() => path),
  );
  expect(defined.length).toBeGreaterThan(5);
  expect(defined.length, defined.join("\n")).toBeLessThan(30);
});

test("file names say what the files export: kebab-case", () => {
  const found = sourceFiles(...SOURCE_FOLDERS).filter(
    ({ path }) => !/^[a-z0-9]+(-[a-z0-9]+)*(\.[a-z]+)?\.ts$/.test(baseName(path)),
  );
  expect(found.map(({ path }) => path)).toEqual([]);
});

const tracked = trackedFiles();

test.skipIf(tracked === undefined)("nothing that belongs to a machine is committed", () => {
  const found = (tracked ?? []).filter((path) =>
    /(^|\/)(node_modules|\.gatehouse)\/|\.(key|pem|crt)$|(^|\/)\.env/.test(path),
  );
  expect(found).toEqual([]);
});

/** What git tracks; undefined where there is no git, or no repository. */
function trackedFiles(): string[] | undefined {
  try {
    const listed = execFileSync("git", ["ls-files"], {
      cwd: ROOT,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    return listed.split("\n").filter(Boolean);
  } catch {
    return undefined;
  }
}
