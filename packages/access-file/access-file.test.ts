import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { ConfigError } from "#kit/config/config.ts";
import { BUILT_IN_PERMISSIONS, parseAccessFile, SHIPPED_ACCESS_FILE } from "./access-file.ts";
import { AccessTable, holdsPermission } from "./access-rules.ts";

const shipped = readFileSync(SHIPPED_ACCESS_FILE, "utf8");
const rules = new AccessTable(parseAccessFile(shipped));

function problemsOf(text: string): string[] {
  try {
    parseAccessFile(text);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const [, ...lines] = error.message.split("\n");
    return lines.map((line) => line.trim());
  }
  return [];
}

test("the roles that ship hold what the contract says", () => {
  expect(Object.fromEntries(rules.roles.map((role) => [role, rules.permissionsOf(role)]))).toEqual({
    USER: ["payments:read", "payments:write"],
    SUPPORT: [
      "users:read",
      "users:unlock",
      "users:help",
      "sessions:read",
      "sessions:end",
      "mfa:reset",
      "audit:read:user",
    ],
    AUDITOR: ["audit:read", "audit:read:user"],
    ADMIN: [...BUILT_IN_PERMISSIONS, "payments:read", "payments:write"],
  });
  expect(rules.defaultRole).toBe("USER");
  expect(rules.sessionLimits("ADMIN")).toEqual({ idleS: 900, absoluteS: 28_800, atMost: 3 });
  expect(rules.sessionLimits("USER")).toEqual({ idleS: undefined, absoluteS: undefined, atMost: undefined });
});

test("every problem is reported at once, with its line and key", () => {
  const text = `
permissions: [payments:read, Payments, payments:read, audit:read]
roles:
  USER: [payments:read, users:write, "*", payments:read]
  clerk: [payments:write]
  OPERATOR: [audit:read]
  ADMIN: [audit:read]
defaultRole: USER
sessions:
  GUEST: { idleMinutes: 5 }
  USER: { idleMinutes: 0, atMost: 21 }
  ADMIN: { idleMinutes: 61, absoluteHours: 1, atmost: 1 }
extra: 1
`;
  expect(problemsOf(text)).toEqual([
    "line 2, permissions.1: must be like payments:read",
    "line 2, permissions.2: appears more than once",
    "line 2, permissions.3: is built in",
    "line 4, roles.USER.2: * must stand alone",
    "line 4, roles.USER.3: appears more than once",
    "line 5, roles.clerk: must be a name like MERCHANT_CLERK",
    "line 5, roles.clerk.0: is neither built in nor among permissions",
    "line 6, roles.OPERATOR: is what the audit log calls others than users",
    'line 7, roles.ADMIN: must be ["*"]: the first administrator has this role',
    "line 8, defaultRole: must hold no built-in permission: everybody who registers gets it",
    "line 10, sessions.GUEST: is not among roles",
    expect.stringMatching(/^line 11, sessions\.USER\.idleMinutes: /),
    expect.stringMatching(/^line 11, sessions\.USER\.atMost: /),
    "line 12, sessions.ADMIN.atmost: is not known",
    "line 12, sessions.ADMIN.idleMinutes: must not be longer than absoluteHours",
    "line 13, extra: is not known",
  ]);
});

test.each([
  ["", "(all)"],
  ["roles: [", "line"],
  ["roles: []\ndefaultRole: USER", "roles"],
  ["roles: { ADMIN: ['*'] }\ndefaultRole: USER", "defaultRole: is not among roles"],
  ["roles: { ADMIN: ['*'] }\ndefaultRole: ADMIN", "defaultRole: must hold no built-in permission"],
  ["roles: { ADMIN: ['*'], USER: [] }", "defaultRole: is required"],
  ["roles: { USER: [] }\ndefaultRole: USER", "roles.ADMIN: must be"],
  ["roles: { ADMIN: ['*'], USER: [] }\nroles: {}\ndefaultRole: USER", "line 2"],
])("the file %j is refused", (text, problem) => {
  expect(problemsOf(text).join("\n")).toContain(problem);
});

test("a permission covers those below it, and no other", () => {
  expect(rules.holds("AUDITOR", "audit:read:user")).toBe(true);
  expect(rules.holds("SUPPORT", "audit:read:user")).toBe(true);
  expect(rules.holds("SUPPORT", "audit:read")).toBe(false);
  expect(rules.holds("AUDITOR", "audit:readers")).toBe(false);
  expect(holdsPermission(rules, { role: "", scopes: ["audit:read"] }, "audit:read:user")).toBe(true);
});

test("a role that is not in the file holds nothing, whatever its name", () => {
  for (const role of ["GHOST", "", "constructor", "__proto__", "admin"]) {
    expect(rules.isDefined(role)).toBe(false);
    expect(rules.holds(role, "payments:read")).toBe(false);
    expect(rules.mayAssign({ role }, "USER")).toBe(false);
    expect(rules.mayActOn({ role }, "USER")).toBe(false);
  }
});

test("a client holds what it was granted, whatever role is beside it", () => {
  const client = { role: "ADMIN", scopes: ["payments:read"] };
  expect(holdsPermission(rules, client, "payments:read")).toBe(true);
  expect(holdsPermission(rules, client, "payments:write")).toBe(false);
  expect(holdsPermission(rules, { role: "ADMIN", scopes: [] }, "payments:read")).toBe(false);
});

test.each([
  { actor: "ADMIN", role: "ADMIN", assign: true, actOn: true },
  { actor: "ADMIN", role: "USER", assign: true, actOn: true },
  { actor: "ADMIN", role: "GHOST", assign: false, actOn: true },
  { actor: "SUPPORT", role: "USER", assign: false, actOn: true },
  { actor: "SUPPORT", role: "SUPPORT", assign: true, actOn: true },
  { actor: "SUPPORT", role: "AUDITOR", assign: false, actOn: false },
  { actor: "SUPPORT", role: "ADMIN", assign: false, actOn: false },
  { actor: "AUDITOR", role: "SUPPORT", assign: false, actOn: false },
])("$actor may assign $role: $assign, and act on its users: $actOn", ({ actor, role, assign, actOn }) => {
  expect(rules.mayAssign({ role: actor }, role)).toBe(assign);
  expect(rules.mayActOn({ role: actor }, role)).toBe(actOn);
});

test("whoever holds every permission by name still cannot assign *", () => {
  const all = JSON.stringify(BUILT_IN_PERMISSIONS);
  const table = new AccessTable(
    parseAccessFile(`roles: { ADMIN: ["*"], ALMOST: ${all}, USER: [] }\ndefaultRole: USER`),
  );
  expect(table.mayAssign({ role: "ALMOST" }, "ADMIN")).toBe(false);
  expect(table.mayActOn({ role: "ALMOST" }, "ADMIN")).toBe(false);
  expect(table.mayAssign({ role: "ALMOST" }, "USER")).toBe(true);
});
