import type { MethodPolicy } from "#routes-file/routes-file.ts";
import type { CommandInput, CommandOption } from "../../command.ts";
import { UsageError } from "../../usage-error.ts";

export const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;
export type Method = (typeof METHODS)[number];
/** In the names of the audit log. */
const VERBS = { GET: undefined, POST: "create", PUT: "replace", PATCH: "change", DELETE: "delete" } as const;

/** As a routes file writes it. */
export interface WrittenAccess {
  permissions?: string[];
  roles?: string[];
  auth?: "public" | "authenticated";
}

const repeatable = (value: string, description: string): CommandOption => ({
  type: "string",
  value,
  multiple: true,
  description,
});

/** Who may call which methods. */
export const POLICY_OPTIONS = {
  permission: repeatable(
    "[methods=]name",
    "of the access file, which callers must hold: POST,PUT=orders:write; without methods of GET; repeatable",
  ),
  role: repeatable("[methods=]name", "which may call them: DELETE=ADMIN; without methods GET; repeatable"),
  authenticated: repeatable("methods", "which every user who is logged in may call; repeatable"),
  public: repeatable("methods", "which anybody may call, without a token; repeatable"),
} satisfies Record<string, CommandOption>;

/** By method, in the order of `METHODS`; empty if no option says anything. @throws {UsageError} */
export function policiesOf(lists: CommandInput["lists"]): Map<Method, WrittenAccess> {
  const found = new Map<Method, WrittenAccess>();
  for (const option of Object.keys(POLICY_OPTIONS) as (keyof typeof POLICY_OPTIONS)[]) {
    for (const given of lists.get(option) ?? []) {
      const { methods, name } = partsOf(option, given);
      for (const method of methods) found.set(method, joined(method, found.get(method), option, name));
    }
  }
  return new Map(METHODS.flatMap((method) => pairOf(method, found.get(method))));
}

const pairOf = (method: Method, access: WrittenAccess | undefined): [Method, WrittenAccess][] =>
  access === undefined ? [] : [[method, access]];

function partsOf(option: keyof typeof POLICY_OPTIONS, given: string): { methods: Method[]; name: string } {
  if (option === "public" || option === "authenticated")
    return { methods: methodsIn(option, given), name: "" };
  const at = given.indexOf("=");
  // Whoever names no method has not said that anything may be changed.
  if (at === -1) return { methods: ["GET"], name: given };
  return { methods: methodsIn(option, given.slice(0, at)), name: given.slice(at + 1) };
}

function methodsIn(option: string, text: string): Method[] {
  return text.split(",").map((word) => {
    const method = METHODS.find((known) => known === word.trim().toUpperCase());
    if (method !== undefined) return method;
    throw new UsageError(
      `--${option} ${text}: ${word || "nothing"} is none of ${METHODS.join(", ")} (GET includes HEAD)`,
    );
  });
}

function joined(
  method: Method,
  former: WrittenAccess | undefined,
  option: keyof typeof POLICY_OPTIONS,
  name: string,
): WrittenAccess {
  const key = option === "permission" ? "permissions" : option === "role" ? "roles" : "auth";
  if (former !== undefined && (former[key] === undefined || (key === "auth" && former.auth !== option))) {
    throw new UsageError(`${method} can have one of --${Object.keys(POLICY_OPTIONS).join(", --")} only`);
  }
  if (option === "public" || option === "authenticated") return { auth: option };
  return { [key]: [...new Set([...(former?.[key as "roles" | "permissions"] ?? []), name])] };
}

/** A method of a new route: changing ones have a name in the audit log. */
export function writtenPolicy(what: string, method: Method, access: WrittenAccess) {
  const verb = VERBS[method];
  return { ...access, ...(verb !== undefined && { action: `${what}.${verb}` }) };
}

/** `GET for callers with orders:read; POST, PUT for callers with the role ADMIN`. */
export function policiesText(methods: Partial<Record<Method, MethodPolicy>>): string {
  const callers = new Map<string, Method[]>();
  for (const method of METHODS) {
    const policy = methods[method];
    if (policy === undefined) continue;
    const who = whoMayCall(policy);
    callers.set(who, [...(callers.get(who) ?? []), method]);
  }
  return [...callers].map(([who, names]) => `${names.join(", ")} for ${who}`).join("; ");
}

function whoMayCall({ auth, permissions }: MethodPolicy): string {
  if (permissions !== undefined) return `callers with ${permissions.join(" and ")}`;
  if (typeof auth === "object") return `callers with the role ${auth.roles.join(" or ")}`;
  return auth === "public" ? "anybody" : "every user who is logged in";
}
