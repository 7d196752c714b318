import { existsSync } from "node:fs";
import { type FileHandle, readFile, realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import { type Document, isMap, isScalar, parseDocument, type YAMLMap, YAMLSeq } from "yaml";
import { parseRoutesFile } from "#routes-file/routes-file.ts";
import { unknownNames } from "#routes-file/unknown-names.ts";
import type { Backend } from "../../backend.ts";
import { CliError } from "../../cli-error.ts";
import type { Command, CommandInput, CommandOption } from "../../command.ts";
import { EXIT } from "../../exit-code.ts";
import { UsageError } from "../../usage-error.ts";
import { replaceFile } from "../replaced-file.ts";
import { ACCESS_OPTION, readAccess } from "./access-source.ts";
import { withKeptLines } from "./kept-lines.ts";
import { readConfigFile } from "./read-config-file.ts";
import { routesTable } from "./routes-check.ts";

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;
/** In the names of the audit log. */
const VERBS = { GET: undefined, POST: "create", PUT: "replace", PATCH: "change", DELETE: "delete" } as const;

const FILE_OPTION: CommandOption = {
  type: "string",
  value: "file",
  description: "the routes file; default: routes.yaml of the local Gatehouse's home",
};
const DASHES_AT_THE_MARGIN = /^routes:[^\n]*\n(?:[ \t\r]*(?:#[^\n]*)?\n)*-/m;
const IN_USE = "A running gateway uses the change within two seconds.";

export const routesList: Command = {
  name: "routes list",
  summary: "Show the upstream APIs of the local Gatehouse, or of a routes file",
  positionals: [],
  options: { routes: FILE_OPTION },
  async run(input, backend) {
    const file = routesFile(input, backend);
    const routes = await readConfigFile(file, (text) => parseRoutesFile(text), "routes_invalid");
    return { text: routesTable(routes), json: { file, routes } };
  },
};

export const routesAdd: Command = {
  name: "routes add",
  summary: "Send a path of the gateway to an upstream API",
  details:
    "`routes add orders http://127.0.0.1:3000` forwards /orders and everything below it, for every user who is logged in. The " +
    "upstream gets a token that only it accepts (docs/verify-tokens.md). If /orders is there already, only its upstream " +
    "changes. The file keeps its comments; everything else that a route can have is in docs/config.md.",
  positionals: ["name", "upstream"],
  options: {
    permission: {
      type: "string",
      value: "name",
      multiple: true,
      description: "of the access file, which callers must hold; repeatable",
    },
    role: { type: "string", value: "name", multiple: true, description: "which may call it; repeatable" },
    public: { type: "boolean", description: "anybody may call it, without a token" },
    method: {
      type: "string",
      value: "method",
      multiple: true,
      description: `of ${METHODS.join(", ")}; repeatable; default: all`,
    },
    audience: { type: "string", value: "name", description: "of the upstream's tokens; default: the name" },
    "strip-prefix": { type: "boolean", description: "the upstream sees /7, not /orders/7" },
    routes: FILE_OPTION,
    access: ACCESS_OPTION,
  },
  async run(input, backend) {
    const [name = "", upstream = ""] = input.positionals;
    const prefix = prefixOf(name);
    const added = newRoute(prefix, upstream, input);
    let said = "";
    const warnings = await editRoutes(input, backend, (document, routes) => {
      const existing = findRoute(routes, prefix);
      if (existing === undefined) {
        routes.add(routeNode(document, added));
        said = `${prefix} goes to ${upstream}, for ${whoMayCall(input)}.`;
        return;
      }
      if (hasPolicy(input)) throw new UsageError(`${prefix} is there already: only its upstream can change`);
      const former = existing.get("upstream") ?? "several upstreams";
      const several = existing.items.find(({ key }) => isScalar(key) && key.value === "upstreams");
      if (several !== undefined) Object.assign(several, document.createPair("upstream", upstream));
      else existing.set("upstream", upstream);
      said = `${prefix} goes to ${upstream} now, and no longer to ${former}. The rest of the route stays.`;
    });
    return { text: [said, ...warnings, IN_USE].join("\n"), json: { prefix, upstream, warnings } };
  },
};

export const routesRemove: Command = {
  name: "routes remove",
  summary: "Forward a path no longer",
  positionals: ["name"],
  options: { routes: FILE_OPTION },
  async run(input, backend) {
    const prefix = prefixOf(input.positionals[0] ?? "");
    await editRoutes(input, backend, (_document, routes) => {
      const index = routes.items.findIndex((route) => isMap(route) && route.get("prefix") === prefix);
      if (index === -1) {
        const known = routes.items.map((route) => (isMap(route) ? route.get("prefix") : undefined));
        throw new UsageError(`No route ${prefix}. There are: ${known.join(", ") || "none"}`);
      }
      routes.delete(index);
      // The list has the comment above its first route.
      if (index === 0) {
        const paragraphs = routes.commentBefore?.split("\n\n") ?? [];
        routes.commentBefore = paragraphs.slice(0, -1).join("\n\n");
      }
    });
    return { text: `${prefix} is forwarded no longer.\n${IN_USE}`, json: { prefix } };
  },
};

type Edit = (document: Document, routes: YAMLSeq) => void;

/** Writes only what the gateway would take. @returns warnings. */
async function editRoutes(input: CommandInput, backend: Backend, edit: Edit): Promise<string[]> {
  const file = routesFile(input, backend);
  const before = await readConfigFile(file, (text) => text, "routes_invalid");
  const check = (text: string) => parseRoutesFile(text);
  await readConfigFile(file, check, "routes_invalid");
  const document = parseDocument(before);
  const routes = document.get("routes");
  const list = routes instanceof YAMLSeq ? routes : new YAMLSeq();
  const style = { lineWidth: 0, indentSeq: !DASHES_AT_THE_MARGIN.test(before) };
  const formatted = document.toString(style);
  if (list !== routes) document.set("routes", list);
  edit(document, list);
  if (list.items.length > 0) list.flow = false;
  const after = withKeptLines(before, formatted, document.toString(style));
  const checked = await validated(after, check);
  const { rules } = await readAccess({ values: withAccessOfHome(input, backend) }, backend);
  // A link stays, and so do the owner and the mode.
  const path = await realpath(file);
  const { mode, uid, gid } = await stat(path);
  await replaceFile(path, { force: true }, async (handle: FileHandle) => {
    if (process.getuid?.() === 0) await handle.chown(uid, gid);
    await handle.chmod(mode & 0o777); // The mode of a new file depends on the umask.
    await handle.writeFile(after);
    if ((await readFile(path, "utf8")) === before) return;
    throw new CliError(`${file} was changed meanwhile, and was not written: run the command again`, {
      exitCode: EXIT.failed,
      code: "conflict",
    });
  });
  return unknownNames(checked, rules).map((line) => `Warning: ${line}`);
}

/** The file of the gateway whose routes were edited. */
function withAccessOfHome({ values }: CommandInput, { home }: Backend): ReadonlyMap<string, string> {
  const own = join(home, "access.yaml");
  if (values.has("access") || values.has("routes") || !existsSync(own)) return values;
  return new Map([...values, ["access", own]]);
}

async function validated<T>(text: string, check: (text: string) => T): Promise<T> {
  try {
    return check(text);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new UsageError(`The gateway would refuse this route, so nothing was written. ${reason}`);
  }
}

function routesFile({ values }: CommandInput, backend: Backend): string {
  return values.get("routes") ?? join(backend.home, "routes.yaml");
}

function prefixOf(name: string): string {
  return name.startsWith("/") ? name : `/${name}`;
}

/** An existing route's policy is not replaced by an option that somebody forgot. */
function hasPolicy({ values, flags, lists }: CommandInput): boolean {
  const given = [...values.keys(), ...flags, ...lists.keys()];
  return given.some((option) => !["routes", "access"].includes(option) && option in routesAdd.options);
}

function findRoute(routes: YAMLSeq, prefix: string): YAMLMap | undefined {
  return routes.items.find((route): route is YAMLMap => isMap(route) && route.get("prefix") === prefix);
}

type NewRoute = ReturnType<typeof newRoute>;

function newRoute(prefix: string, upstream: string, { values, flags, lists }: CommandInput) {
  const named = lists.get("method")?.map((method) => method.toUpperCase());
  const methods = named ?? METHODS;
  const unknown = methods.find((method) => !(METHODS as readonly string[]).includes(method));
  if (unknown !== undefined) throw new UsageError(`--method must be one of ${METHODS.join(", ")}`);
  const [permissions, roles] = [lists.get("permission"), lists.get("role")];
  const isPublic = flags.has("public");
  if ([permissions, roles, isPublic || undefined].filter((each) => each !== undefined).length > 1) {
    throw new UsageError("Specify one of --permission, --role and --public");
  }
  const access = permissions
    ? { permissions }
    : roles
      ? { roles }
      : { auth: isPublic ? "public" : "authenticated" };
  const what =
    prefix
      .slice(1)
      .replaceAll("/", "-")
      .replace(/^[^a-z]+/, "") || "upstream";
  const policy = (method: string) => {
    const verb = VERBS[method as keyof typeof VERBS];
    return { ...access, ...(verb && { action: `${what}.${verb}` }) };
  };
  return {
    prefix,
    upstream,
    ...(flags.has("strip-prefix") && { stripPrefix: true }),
    audience: values.get("audience") ?? what,
    methods: Object.fromEntries(methods.map((method) => [method, policy(method)])),
  };
}

/** Methods stand on one line each. */
function routeNode(document: Document, route: NewRoute): YAMLMap {
  const node = document.createNode(route) as YAMLMap;
  const methods = node.get("methods") as YAMLMap<unknown, YAMLMap>;
  for (const { value } of methods.items) if (value !== null) value.flow = true;
  return node;
}

function whoMayCall({ flags, lists }: CommandInput): string {
  const [permissions, roles] = [lists.get("permission"), lists.get("role")];
  if (permissions !== undefined) return `callers with ${permissions.join(" and ")}`;
  if (roles !== undefined) return `the roles ${roles.join(", ")}`;
  return flags.has("public") ? "anybody" : "every user who is logged in";
}
