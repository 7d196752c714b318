import { join } from "node:path";
import { z } from "zod";
import { readableFileSchema } from "#kit/config/config.ts";
import { parsedFile, parseYamlFile } from "#kit/config/yaml-file.ts";
import { PERMISSION_NAME, ROLE_NAME } from "#kit/values/access-names.ts";

/** What the gateway's own routes demand. */
export const BUILT_IN_PERMISSIONS = [
  "users:read",
  "users:write",
  "users:unlock",
  "users:help",
  "users:delete",
  "roles:assign",
  "sessions:read",
  "sessions:end",
  "mfa:reset",
  "audit:read",
  "audit:read:user",
  "clients:read",
  "clients:write",
  "webhooks:read",
  "webhooks:write",
  "signals:receive",
  "system:read",
] as const;

export type BuiltInPermission = (typeof BUILT_IN_PERMISSIONS)[number];

/** The first administrator and the last one have this role. */
const ADMIN = "ADMIN";
const EVERYTHING = "*";
/** Actors of audit entries that are no users. */
const RESERVED_ROLES: ReadonlySet<string> = new Set(["OPERATOR", "CLIENT"]);

const MAX_PERMISSIONS = 500;
const MAX_ROLES = 100;
const MAX_IDLE_MINUTES = 525_600;
const MAX_ABSOLUTE_HOURS = 8_760;
const MAX_SESSIONS = 20;

const permission = z.string().regex(PERMISSION_NAME, "must be like payments:read");
const granted = z.string().refine((text) => text === EVERYTHING || PERMISSION_NAME.test(text), {
  error: 'must be like payments:read, or "*"',
});
const sessionLimits = z.strictObject({
  idleMinutes: z.int().min(1).max(MAX_IDLE_MINUTES).optional(),
  absoluteHours: z.int().min(1).max(MAX_ABSOLUTE_HOURS).optional(),
  atMost: z.int().min(1).max(MAX_SESSIONS).optional(),
});

const accessFile = z
  .strictObject({
    permissions: z.array(permission).max(MAX_PERMISSIONS).default([]),
    roles: z.record(z.string(), z.array(granted).max(MAX_PERMISSIONS)),
    defaultRole: z.string(),
    sessions: z.record(z.string(), sessionLimits).default({}),
  })
  // Also after a failed field, so that the file's problems are reported at once.
  .superRefine(checkNames, { when: () => true });

export type AccessFile = z.output<typeof accessFile>;

/** @throws {ConfigError} naming every problem with its line and key. */
export function parseAccessFile(text: string): AccessFile {
  return parseYamlFile(text, accessFile, "the access file");
}

type Report = (path: (string | number)[], message: string) => void;

/** Parts of the file may have another form than their types. */
function checkNames(file: unknown, context: z.RefinementCtx): void {
  const report: Report = (path, message) => context.addIssue({ code: "custom", path, message });
  const { permissions, roles, defaultRole, sessions } = recordOf(file);
  const declared = textsOf(permissions);
  checkDeclared(declared, report);
  const known = new Set<string>([...BUILT_IN_PERMISSIONS, ...declared]);
  const byRole = new Map(Object.entries(recordOf(roles)).map(([role, list]) => [role, textsOf(list)]));
  if (byRole.size > MAX_ROLES) report(["roles"], `must be at most ${MAX_ROLES}`);
  for (const [role, list] of byRole) {
    if (!ROLE_NAME.test(role)) report(["roles", role], "must be a name like MERCHANT_CLERK");
    if (RESERVED_ROLES.has(role)) report(["roles", role], "is what the audit log calls others than users");
    checkGranted(role, list, known, report);
  }
  const admin = byRole.get(ADMIN);
  if (roles !== undefined && !(admin?.length === 1 && admin[0] === EVERYTHING))
    report(["roles", ADMIN], 'must be ["*"]: the first administrator has this role');
  if (typeof defaultRole === "string") checkDefault(byRole.get(defaultRole), report);
  checkSessions(recordOf(sessions), byRole, report);
}

function checkDeclared(declared: readonly string[], report: Report): void {
  for (const [index, name] of declared.entries()) {
    if ((BUILT_IN_PERMISSIONS as readonly string[]).includes(name))
      report(["permissions", index], "is built in");
    else if (declared.indexOf(name) < index) report(["permissions", index], "appears more than once");
  }
}

function checkGranted(
  role: string,
  list: readonly string[],
  known: ReadonlySet<string>,
  report: Report,
): void {
  for (const [index, name] of list.entries()) {
    const path = ["roles", role, index];
    if (name === EVERYTHING) {
      if (list.length > 1) report(path, "* must stand alone");
    } else if (PERMISSION_NAME.test(name) && !known.has(name)) {
      report(path, "is neither built in nor among permissions");
    }
    if (list.indexOf(name) < index) report(path, "appears more than once");
  }
}

/** Everybody can register. */
function checkDefault(list: readonly string[] | undefined, report: Report): void {
  if (list === undefined) report(["defaultRole"], "is not among roles");
  else if (list.some((name) => name === EVERYTHING || isBuiltIn(name)))
    report(["defaultRole"], "must hold no built-in permission: everybody who registers gets it");
}

function isBuiltIn(name: string): boolean {
  return (BUILT_IN_PERMISSIONS as readonly string[]).includes(name);
}

function checkSessions(
  sessions: Record<string, unknown>,
  roles: ReadonlyMap<string, unknown>,
  report: Report,
): void {
  for (const [role, limits] of Object.entries(sessions)) {
    if (!roles.has(role)) report(["sessions", role], "is not among roles");
    const { idleMinutes, absoluteHours } = recordOf(limits);
    if (
      typeof idleMinutes === "number" &&
      typeof absoluteHours === "number" &&
      idleMinutes > absoluteHours * 60
    )
      report(["sessions", role, "idleMinutes"], "must not be longer than absoluteHours");
  }
}

function recordOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

/** Keeps the index of each. */
function textsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.map((each) => (typeof each === "string" ? each : "")) : [];
}

/** With the roles of Gatehouse itself. */
export const SHIPPED_ACCESS_FILE = join(import.meta.dirname, "access.yaml");

export const accessConfig = {
  /** YAML: roles, their permissions and sessions. */
  // The file is read again when it changes.
  ACCESS_FILE: readableFileSchema
    .default(SHIPPED_ACCESS_FILE)
    .transform(parsedFile((text, path) => ({ path, text, access: parseAccessFile(text) }))),
};
