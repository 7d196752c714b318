import { type FileHandle, readFile, realpath, stat } from "node:fs/promises";
import { isDeepStrictEqual } from "node:util";
import {
  type Document,
  isAlias,
  isCollection,
  isMap,
  isNode,
  isScalar,
  parseDocument,
  type YAMLMap,
  YAMLSeq,
} from "yaml";
import { parseRoutesFile, type UpstreamRoute } from "#routes-file/routes-file.ts";
import { unknownNames } from "#routes-file/unknown-names.ts";
import type { Backend } from "../../backend.ts";
import { CliError } from "../../cli-error.ts";
import type { Command, CommandInput } from "../../command.ts";
import { EXIT } from "../../exit-code.ts";
import { UsageError } from "../../usage-error.ts";
import { replaceFile } from "../replaced-file.ts";
import { ACCESS_OPTION, gatewayFile, ROUTES_OPTION, readAccess } from "./gateway-files.ts";
import { withKeptLines } from "./kept-lines.ts";
import { readConfigFile } from "./read-config-file.ts";
import {
  METHODS,
  type Method,
  POLICY_OPTIONS,
  policiesOf,
  policiesText,
  type WrittenAccess,
  writtenPolicy,
} from "./route-policies.ts";
import { routesTable } from "./routes-check.ts";

const DASHES_AT_THE_MARGIN = /^routes:[^\n]*\n(?:[ \t\r]*(?:#[^\n]*)?\n)*-/m;
const IN_USE = "A running gateway uses the change within two seconds.";

export const routesList: Command = {
  name: "routes list",
  summary: "Show the upstream APIs of the local Gatehouse, or of a routes file",
  positionals: [],
  options: { routes: ROUTES_OPTION },
  async run(input, backend) {
    const file = gatewayFile("routes", input, backend);
    const routes = await readConfigFile(file, (text) => parseRoutesFile(text), "routes_invalid");
    return { text: `${routesTable(routes)}\n\nBy ${file}.`, json: { file, routes } };
  },
};

export const routesAdd: Command = {
  name: "routes add",
  summary: "Send a path of the gateway to an upstream API",
  details:
    "`routes add orders http://127.0.0.1:3000` forwards /orders and everything below it, with these methods alone: those that the " +
    "options name, or GET for every user who is logged in. The upstream gets a token that only it accepts, " +
    "if its verifier has the route's audience (docs/verify-tokens.md). If /orders is there already, methods and origins are added; without any, only its upstream " +
    "changes. The file keeps its comments; what else a route can have is in docs/config.md. Readers and writers:\n" +
    "  --permission GET=orders:read --permission POST,PUT=orders:write",
  positionals: ["name", "upstream"],
  options: {
    ...POLICY_OPTIONS,
    origin: {
      type: "string",
      value: "origin",
      multiple: true,
      description:
        "whose pages may call it: https://shop.example.com, also in ALLOWED_ORIGINS if they log in; repeatable",
    },
    audience: { type: "string", value: "name", description: "of the upstream's tokens; default: the name" },
    "strip-prefix": { type: "boolean", description: "the upstream sees /7, not /orders/7" },
    replace: { type: "boolean", description: "of a path that is there, what the other options name" },
    routes: ROUTES_OPTION,
    access: ACCESS_OPTION,
  },
  async run(input, backend) {
    const [name = "", upstream = ""] = input.positionals;
    const prefix = prefixOf(name);
    const wanted = wantedRoute(prefix, upstream, input);
    let note = "";
    const { file, source, route, warnings } = await editRoutes(input, backend, prefix, (document, routes) => {
      const existing = findRoute(routes, prefix);
      if (existing === undefined) routes.add(newRoute(document, wanted));
      else note = changeRoute(document, existing, wanted, input.flags.has("replace"));
      return existing === undefined ? METHODS : [...wanted.methods.keys()];
    });
    const methods = route?.methods ?? {};
    const closed = METHODS.filter((method) => methods[method] === undefined);
    const said = [
      `${prefix} goes to ${route?.upstreams.join(" ")}: ${policiesText(methods)}.${note}`,
      ...(closed.length === 0 ? [] : [closedText(closed, prefix, upstream)]),
      ...(route?.audience === undefined ? [] : [audienceText(route.audience)]),
      ...warnings.map((line) => `Warning: ${line}`),
      `By ${file} and ${source}. ${IN_USE}`,
    ];
    return { text: said.join("\n"), json: { file, prefix, upstream, methods, closed, warnings } };
  },
};

function closedText(closed: readonly string[], prefix: string, upstream: string): string {
  const add = `gatehouse routes add ${prefix} ${upstream} --permission ${closed[0]}=<name>`;
  return `${closed.join(", ")} stay closed; to open one: ${add} (or --role, --authenticated, --public).`;
}

function audienceText(audience: string): string {
  return `It gets tokens for the audience ${audience}: its verifier refuses them without the option audience: "${audience}".`;
}

export const routesRemove: Command = {
  name: "routes remove",
  summary: "Forward a path no longer",
  positionals: ["name"],
  options: { routes: ROUTES_OPTION },
  async run(input, backend) {
    const prefix = prefixOf(input.positionals[0] ?? "");
    const { file } = await editRoutes(input, backend, prefix, (_document, routes) => {
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
      return METHODS;
    });
    return { text: `${prefix} is forwarded no longer.\nBy ${file}. ${IN_USE}`, json: { file, prefix } };
  },
};

/** @returns the methods that it may change. */
type Edit = (document: Document, routes: YAMLSeq) => readonly Method[];

/** Writes only what the gateway would take, and what differs in the methods of this path that the edit names alone. */
async function editRoutes(input: CommandInput, backend: Backend, prefix: string, edit: Edit) {
  const file = gatewayFile("routes", input, backend);
  const before = await readConfigFile(file, (text) => text, "routes_invalid");
  const check = (text: string) => parseRoutesFile(text);
  const former = await readConfigFile(file, check, "routes_invalid");
  const document = parseDocument(before);
  const routes = document.get("routes");
  const list = routes instanceof YAMLSeq ? routes : new YAMLSeq();
  const style = { lineWidth: 0, indentSeq: !DASHES_AT_THE_MARGIN.test(before) };
  const formatted = document.toString(style);
  if (list !== routes) document.set("routes", list);
  const changed = edit(document, list);
  if (list.items.length > 0) list.flow = false;
  const after = await validated(() => withKeptLines(before, formatted, document.toString(style)));
  const checked = await validated(() => check(after));
  assertNothingElse(former, checked, prefix, changed);
  const { rules, source } = await readAccess(input, backend);
  await writeRoutes(file, before, after);
  const route = checked.find((one) => one.prefix === prefix);
  return { file, source, route, warnings: unknownNames(checked, rules) };
}

/** An anchor of YAML may be used by another method or route. */
function assertNothingElse(
  former: readonly UpstreamRoute[],
  later: readonly UpstreamRoute[],
  prefix: string,
  changed: readonly Method[],
): void {
  const others = (routes: readonly UpstreamRoute[]) => routes.filter((route) => route.prefix !== prefix);
  const rest = (routes: readonly UpstreamRoute[]) =>
    METHODS.filter((method) => !changed.includes(method)).map(
      (method) => routes.find((route) => route.prefix === prefix)?.methods[method],
    );
  if (isDeepStrictEqual(others(former), others(later)) && isDeepStrictEqual(rest(former), rest(later)))
    return;
  throw new UsageError("An anchor (&) of the file would change other methods or routes too: edit it by hand");
}

async function writeRoutes(file: string, before: string, after: string): Promise<void> {
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
}

async function validated<T>(make: () => T): Promise<T> {
  try {
    return make();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new UsageError(`The gateway would refuse this route, so nothing was written. ${reason}`);
  }
}

function prefixOf(name: string): string {
  return name.startsWith("/") ? name : `/${name}`;
}

function findRoute(routes: YAMLSeq, prefix: string): YAMLMap | undefined {
  return routes.items.find((route): route is YAMLMap => isMap(route) && route.get("prefix") === prefix);
}

type WantedRoute = ReturnType<typeof wantedRoute>;

/** What the command line says of a route. */
function wantedRoute(prefix: string, upstream: string, { values, flags, lists }: CommandInput) {
  const what =
    prefix
      .slice(1)
      .replaceAll("/", "-")
      .replace(/^[^a-z]+/, "") || "upstream";
  return {
    prefix,
    what,
    upstream,
    audience: values.get("audience"),
    stripPrefix: flags.has("strip-prefix") || undefined,
    origins: lists.get("origin") ?? [],
    methods: policiesOf(lists),
  };
}

function newRoute(document: Document, { prefix, what, upstream, ...wanted }: WantedRoute): YAMLMap {
  const policies: [Method, WrittenAccess][] =
    wanted.methods.size === 0 ? [["GET", { auth: "authenticated" }]] : [...wanted.methods];
  const node = document.createNode({
    prefix,
    upstream,
    ...(wanted.stripPrefix && { stripPrefix: true }),
    audience: wanted.audience ?? what,
    ...(wanted.origins.length > 0 && { allowedOrigins: wanted.origins }),
    methods: {},
  }) as YAMLMap;
  for (const [method, access] of policies) {
    node.setIn(["methods", method], policyNode(document, writtenPolicy(what, method, access)));
  }
  const origins = node.get("allowedOrigins");
  if (origins instanceof YAMLSeq) origins.flow = true;
  return node;
}

/** Written on one line. */
function policyNode(document: Document, policy: object): YAMLMap {
  const node = document.createNode(policy, { aliasDuplicateObjects: false }) as YAMLMap;
  node.flow = true;
  return node;
}

/** Adds, and replaces nothing without `mayReplace` but the upstream where nothing else is named. @returns what to say of it. */
function changeRoute(document: Document, route: YAMLMap, wanted: WantedRoute, mayReplace: boolean): string {
  const { prefix, what, upstream, methods, origins } = wanted;
  const refuse = (is: string): never => {
    throw new UsageError(`${prefix} has ${is} already: --replace replaces it`);
  };
  for (const key of ["methods", "allowedOrigins"]) {
    if (!isAlias(route.get(key, true))) continue;
    throw new UsageError(`${prefix} has its ${key} from an anchor (&) elsewhere: edit the file by hand`);
  }
  const settings = Object.entries({ audience: wanted.audience, stripPrefix: wanted.stripPrefix });
  for (const [key, value] of settings) {
    if (value === undefined || route.get(key) === value) continue;
    if (!mayReplace) refuse(route.has(key) ? `${key}: ${route.get(key)}` : `no ${key}`);
    route.set(key, value);
  }
  for (const [method, access] of methods) {
    const existing = route.getIn(["methods", method], true);
    if (existing === undefined) {
      route.setIn(["methods", method], policyNode(document, writtenPolicy(what, method, access)));
    } else if (!isDeepStrictEqual(accessIn(document, existing), access)) {
      if (!mayReplace || !isMap(existing)) refuse(`another policy of ${method}`);
      else replaceAccess(document, existing, access);
    }
  }
  for (const origin of origins) {
    const listed = route.get("allowedOrigins");
    if (!(listed instanceof YAMLSeq))
      route.set("allowedOrigins", document.createNode([origin], { flow: true }));
    else if (!listed.items.some((item) => (isScalar(item) ? item.value : item) === origin))
      listed.add(origin);
  }
  const isOnlyUpstream =
    methods.size + origins.length === 0 && settings.every(([, value]) => value === undefined);
  const former = upstreamsIn(document, route);
  if (former.includes(upstream) && (former.length === 1 || !isOnlyUpstream)) return "";
  if (!isOnlyUpstream && !mayReplace) refuse(`the upstream ${former.join(" and ")}`);
  const several = route.items.find(({ key }) => isScalar(key) && key.value === "upstreams");
  if (several !== undefined) Object.assign(several, document.createPair("upstream", upstream));
  else route.set("upstream", upstream);
  return ` It goes no longer to ${former.filter((one) => one !== upstream).join(" and ")}. The rest of the route stays.`;
}

function upstreamsIn(document: Document, route: YAMLMap): unknown[] {
  const { upstream, upstreams } = route.toJS(document) as { upstream?: unknown; upstreams?: unknown };
  return [upstreams ?? upstream].flat();
}

const ACCESS_KEYS = ["permissions", "roles", "auth"] as const;

function accessIn(document: Document, node: unknown): object {
  const written = isNode(node) ? (node.toJS(document) as Record<string, unknown>) : {};
  return Object.fromEntries(ACCESS_KEYS.flatMap((key) => (key in written ? [[key, written[key]]] : [])));
}

/** The method's action, approval and assurance stay. */
function replaceAccess(document: Document, policy: YAMLMap, access: WrittenAccess): void {
  for (const key of ACCESS_KEYS) policy.delete(key);
  const pairs = Object.entries(access).map(([key, value]) => document.createPair(key, value));
  for (const { value } of pairs) if (isCollection(value)) value.flow = true;
  policy.items.unshift(...pairs);
}
