import type { AccessTable } from "#access-file/access-rules.ts";
import { type OwnRoute, readOwnRoutes } from "#access-file/own-routes.ts";
import type { MethodPolicy, UpstreamRoute } from "#routes-file/routes-file.ts";
import { CliError } from "../../cli-error.ts";
import type { Command } from "../../command.ts";
import { EXIT } from "../../exit-code.ts";
import { UsageError } from "../../usage-error.ts";
import { table } from "../table.ts";
import { ACCESS_OPTION, ROUTES_OPTION, readAccess, readRoutes } from "./gateway-files.ts";

interface Demand {
  /** `/admin/users/{id}`, or the prefix of a forwarded route. */
  route: string;
  auth: MethodPolicy["auth"] | NonNullable<OwnRoute["auth"]>;
  permissions: readonly string[];
}

export const accessWhoCan: Command = {
  name: "access who-can",
  summary: "Show which roles may call a path of the gateway, without calling anything",
  details: "It answers by files on this machine and says which: it does not ask the running gateway.",
  positionals: ["method", "path"],
  options: { access: ACCESS_OPTION, routes: ROUTES_OPTION },
  async run(input, backend) {
    const [word = "", path = ""] = input.positionals;
    const method = methodNamed(word);
    const { rules, accessFile, source } = await readAccess(input, backend);
    const { routes, routesFile } = await readRoutes(input, backend);
    const demand = demandOf(method, path, routes);
    if (demand === undefined) {
      const where = routesFile === null ? "; name the routes file by --routes" : ` and of ${routesFile}`;
      const message = `${method} ${path} is no route of the gateway${where}`;
      throw new CliError(message, { exitCode: EXIT.failed, code: "not_found" });
    }
    const roles = rules.roles.filter((role) => mayCall(rules, demand, role));
    const json = { method, ...demand, roles, clients: demand.permissions.length > 0, accessFile, routesFile };
    const rows = rules.roles.map((role) => [role, roles.includes(role) ? "yes" : "no"]);
    const answer = `${demandText(method, demand)}\n\n${table(["ROLE", "MAY CALL IT"], rows)}`;
    return { text: `${answer}\n\nBy ${source}${routesFile === null ? "" : ` and ${routesFile}`}.`, json };
  },
};

function methodNamed(word: string): string {
  const method = word.toUpperCase();
  // HEAD goes with GET.
  if (method === "HEAD") return "GET";
  if (["GET", "POST", "PUT", "PATCH", "DELETE"].includes(method)) return method;
  throw new UsageError("<method> must be GET, POST, PUT, PATCH or DELETE");
}

function demandOf(method: string, typed: string, routes: readonly UpstreamRoute[]): Demand | undefined {
  if (!typed.startsWith("/")) throw new UsageError("<path> must begin with /");
  const [path = ""] = typed.replace(/^\/v1(?=\/)/, "").split("?", 1);
  const own = readOwnRoutes().filter((route) => matches(route.path, path));
  // A literal path goes before a pattern.
  const exact = own.filter((route) => route.path === path);
  const found = (exact.length > 0 ? exact : own).find((route) => route.method === method);
  if (found !== undefined) {
    return { route: found.path, auth: found.auth ?? "authenticated", permissions: found.permissions ?? [] };
  }
  const forwarded = routes.find(({ prefix }) => path === prefix || path.startsWith(`${prefix}/`));
  const policy = forwarded?.methods[method as keyof UpstreamRoute["methods"]];
  if (forwarded === undefined || policy === undefined) return undefined;
  return { route: forwarded.prefix, auth: policy.auth, permissions: policy.permissions ?? [] };
}

function matches(pattern: string, path: string): boolean {
  const [segments, typed] = [pattern.split("/"), path.split("/")];
  return (
    segments.length === typed.length &&
    segments.every(
      (segment, index) => segment === typed[index] || (segment.startsWith("{") && typed[index] !== ""),
    )
  );
}

function mayCall(rules: AccessTable, { auth, permissions }: Demand, role: string): boolean {
  if (auth === "service" || auth === "client") return false;
  if (typeof auth === "object") return auth.roles.includes(role);
  return permissions.every((permission) => rules.holds(role, permission));
}

function demandText(method: string, { route, auth, permissions }: Demand): string {
  const name = `${method} ${route}`;
  if (permissions.length > 0) {
    const whose = auth === "client" ? "of a client" : "of a user's role or of a client";
    return `${name} demands ${permissions.join(" and ")}, ${whose}`;
  }
  if (auth === "public") return `${name} is public`;
  if (auth === "service") return `${name} is for services that authenticate themselves`;
  return typeof auth === "object"
    ? `${name} is for users of ${auth.roles.join(", ")}`
    : `${name} is for every user`;
}
