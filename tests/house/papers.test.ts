import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";
import { AUDIT_CALLERS } from "#audit-service/intake/audit-rpc.ts";
import { AUDIT_QUERY_CALLERS } from "#audit-service/query/audit-query-rpc.ts";
import { SIGNAL_CALLERS } from "#event-service/signal-rpc.ts";
import { WEBHOOK_CALLERS } from "#event-service/webhook-rpc.ts";
import { CLIENT_ADMIN_CALLERS } from "#identity-service/client-admin-rpc.ts";
import { CLIENT_CALLERS } from "#identity-service/client-rpc.ts";
import { IDENTITY_CALLERS } from "#identity-service/identity-rpc.ts";
import { TEST_LOGIN_CALLERS } from "#identity-service/test-login-rpc.ts";
import { USER_ADMIN_CALLERS } from "#identity-service/user-admin-rpc.ts";
import { USER_IMPORT_CALLERS } from "#identity-service/user-import-rpc.ts";
import { keyCallers } from "#token-service/key-rpc.ts";
import { partCallers } from "#token-service/part-rpc.ts";
import { securityEventCallers } from "#token-service/security-event-rpc.ts";
import { sessionCallers } from "#token-service/session-rpc.ts";
import { tokenCallers } from "#token-service/token-rpc.ts";
import { contractTable } from "#trials/degradation/contract.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");
const DECISIONS = join(ROOT, "docs", "decisions");
const RUNBOOKS = join(ROOT, "docs", "operations", "runbooks");
const read = (...path: string[]) => readFileSync(join(...path), "utf8");

const FOLDERS = ["docs", "deploy", "clients"];
const papers = [
  ...readdirSync(ROOT).map((name) => join(ROOT, name)),
  ...FOLDERS.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" }).map((name) =>
      join(ROOT, folder, name),
    ),
  ),
].filter((path) => path.endsWith(".md") && !/node_modules|\/dist\//.test(path));

/** The anchor of a heading on GitHub. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");
}

/** Without fenced code blocks: brackets in them are not links. */
function withoutExamples(text: string): string {
  return text.replaceAll(/^```[\s\S]*?^```$/gm, "");
}

function leadsSomewhere(paper: string, link: string): boolean {
  const [path = "", anchor] = link.split("#");
  const target = path === "" ? paper : resolve(dirname(paper), path);
  if (!existsSync(target)) return false;
  const headings = anchor === undefined ? [] : read(target).matchAll(/^#+ (.+)$/gm);
  return anchor === undefined || [...headings].some(([, heading = ""]) => anchorOf(heading) === anchor);
}

test("every link between papers leads to a file that exists, and to a heading in it", () => {
  expect(papers.length).toBeGreaterThan(100);
  const broken = papers.flatMap((paper) =>
    [...withoutExamples(read(paper)).matchAll(/\]\(([^)\s]+)\)/g)]
      .map(([, link = ""]) => link)
      .filter((link) => !/^(?:https?|mailto):/.test(link) && !leadsSomewhere(paper, link))
      .map((link) => `${relative(ROOT, paper)}: ${link}`),
  );
  expect(broken).toEqual([]);
});

// The change log describes the past.
const currentPapers = papers.filter((paper) => !paper.endsWith("CHANGELOG.md"));
/** Where a path may begin: the production overlay's README names the operator's files in a copy of it. */
const placesOf = (paper: string) => [
  ROOT,
  dirname(paper),
  join(ROOT, "deploy", "k8s", "overlays", "production"),
];
const namedIn = (paper: string, pattern: RegExp) =>
  [...read(paper).matchAll(pattern)].map(([, path = ""]) => path);
const inRoot = (paper: string, path: string) => `${relative(ROOT, paper)}: ${path}`;

test("every file of the source that a paper names by its path exists", () => {
  const named = /`((?:[\w.-]+\/)+[\w.-]+\.(?:ts|sql|sh|yaml|proto|json))`/g;
  const missing = currentPapers.flatMap((paper) =>
    namedIn(paper, named)
      .filter((path) => !placesOf(paper).some((place) => existsSync(join(place, path))))
      .map((path) => inRoot(paper, path)),
  );
  expect(missing).toEqual([]);
});

const SOURCES = [
  "gateway",
  "identity-service",
  "token-service",
  "audit-service",
  "event-service",
  "packages",
  "cli",
  "deploy",
  "tests",
  "clients",
];

test("every folder of the source that a paper names exists, and every file that it names without a folder", () => {
  const folder = new RegExp(`\`((?:${SOURCES.join("|")})/[\\w/-]*)\``, "g");
  const names = new Set(
    SOURCES.flatMap((name) => readdirSync(join(ROOT, name), { recursive: true, encoding: "utf8" })).map(
      (path) => basename(path),
    ),
  );
  const missing = currentPapers.flatMap((paper) =>
    [
      ...namedIn(paper, folder).filter((path) => !isFileOrFolder(path)),
      ...namedIn(paper, /`([\w-]+\.ts)`/g).filter((name) => !names.has(name)),
    ].map((path) => inRoot(paper, path)),
  );
  expect(missing).toEqual([]);
});

/** A file may be named without its extension. What is built need not be there. */
function isFileOrFolder(path: string): boolean {
  return /\/dist\//.test(path) || existsSync(join(ROOT, path)) || existsSync(join(ROOT, `${path}.ts`));
}

test("the list of decisions has every record once, with its title", () => {
  const listed = [...read(DECISIONS, "README.md").matchAll(/^- \[([a-z-]+)\]\(([^)]+)\): (.+)$/gm)];
  const records = readdirSync(DECISIONS).filter((name) => name !== "README.md");
  const titleOf = (file: string) => /^# (.+)$/m.exec(read(DECISIONS, file))?.[1];
  expect(listed.map(([, name, file, title]) => `${name} ${file} ${title}`).sort()).toEqual(
    records.map((file) => `${file.replace(/\.md$/, "")} ${file} ${titleOf(file)}`).sort(),
  );
});

test("the list of runbooks names every runbook once, by its alert", () => {
  const list = read(ROOT, "docs", "operations", "README.md");
  const links = [...list.matchAll(/\[(\w+)\]\(runbooks\/(\w+)\.md\)/g)];
  expect(links.map(([, , file = ""]) => `${file}.md`).sort()).toEqual(readdirSync(RUNBOOKS).sort());
  for (const [, name, file] of links) expect(`Gatehouse${name}`).toBe(file);
});

test("the table of callers in architecture.md is the services' own", () => {
  const callers: Record<string, Record<string, readonly string[]>> = {
    IdentityService: { ...IDENTITY_CALLERS },
    ClientService: { ...CLIENT_CALLERS },
    ClientAdminService: { ...CLIENT_ADMIN_CALLERS },
    UserAdminService: { ...USER_ADMIN_CALLERS },
    UserImportService: { ...USER_IMPORT_CALLERS },
    TestLoginService: { ...TEST_LOGIN_CALLERS },
    TokenService: { ...tokenCallers(["the names in `VERIFIERS`"]) },
    SessionService: { ...sessionCallers },
    KeyService: { ...keyCallers },
    PartService: { ...partCallers },
    SecurityEventService: { ...securityEventCallers },
    AuditService: { ...AUDIT_CALLERS },
    AuditQueryService: { ...AUDIT_QUERY_CALLERS },
    WebhookService: { ...WEBHOOK_CALLERS },
    SignalService: { ...SIGNAL_CALLERS },
  };
  const rows = [...read(ROOT, "docs", "architecture.md").matchAll(/^\| (\w+Service): (.+?) \| (.+) \|$/gm)];
  const documented: Record<string, Record<string, readonly string[]>> = {};
  for (const [, service = "", methods = "", names = ""] of rows) {
    const known = Object.keys(callers[service] ?? {});
    const described: Record<string, readonly string[]> = { ...documented[service] };
    const others = known.filter((method) => described[method] === undefined);
    const listed = methods.split(", ").map((method) => method.charAt(0).toLowerCase() + method.slice(1));
    for (const method of /^all/.test(methods) ? others : listed) described[method] = names.split(", ");
    documented[service] = described;
  }
  expect(documented).toEqual(callers);
});

test("the table of degradation.md is the contract that the flow tries", () => {
  const text = read(ROOT, "docs", "degradation.md");
  const [, table] = /\n(\| What is away[\s\S]*?\n\nThe calls are .*\.)\n/.exec(text) ?? [];
  expect(table).toBe(contractTable());
});
