import { existsSync } from "node:fs";
import { join } from "node:path";
import { parseAccessFile, SHIPPED_ACCESS_FILE } from "#access-file/access-file.ts";
import { AccessTable } from "#access-file/access-rules.ts";
import { parseRoutesFile, type UpstreamRoute } from "#routes-file/routes-file.ts";
import type { Backend } from "../../backend.ts";
import type { CommandInput, CommandOption } from "../../command.ts";
import { readConfigFile } from "./read-config-file.ts";

const FILES = {
  routes: { variable: "ROUTES_FILE", name: "routes.yaml" },
  access: { variable: "ACCESS_FILE", name: "access.yaml" },
} as const;

const WHERE = "default: --home's, else";

export const ROUTES_OPTION: CommandOption = {
  type: "string",
  value: "file",
  description: `the routes file; ${WHERE} ROUTES_FILE, else that of the local Gatehouse's home`,
};
export const ACCESS_OPTION: CommandOption = {
  type: "string",
  value: "file",
  description: `the access file; ${WHERE} ACCESS_FILE, else that of the local Gatehouse's home, else the one that ships`,
};

type Sources = Pick<Backend, "environment" | "home">;
type Values = Pick<CommandInput, "values">;

/**
 * The file that the gateway reads, as in `backendSettings`: the one named by an option, `--home`'s, the environment's, or that
 * of the local Gatehouse's home.
 */
export function gatewayFile(kind: keyof typeof FILES, input: Values, backend: Sources): string {
  return namedFile(kind, input, backend) ?? join(backend.home, FILES[kind].name);
}

function namedFile(kind: keyof typeof FILES, { values }: Values, { environment }: Sources) {
  const configured = values.has("home") ? undefined : environment[FILES[kind].variable];
  return values.get(kind) ?? (configured || undefined);
}

/** A file that somebody has named must exist. */
function existingFile(kind: keyof typeof FILES, input: Values, backend: Sources): string | undefined {
  const file = gatewayFile(kind, input, backend);
  return namedFile(kind, input, backend) === undefined && !existsSync(file) ? undefined : file;
}

/** The rules, and which file they are from. */
export async function readAccess(
  input: Values,
  backend: Sources,
): Promise<{ rules: AccessTable; accessFile: string; source: string }> {
  const found = existingFile("access", input, backend);
  const accessFile = found ?? SHIPPED_ACCESS_FILE;
  const rules = new AccessTable(await readConfigFile(accessFile, parseAccessFile, "access_invalid"));
  return { rules, accessFile, source: found ?? `${accessFile}, which ships with Gatehouse` };
}

/** No routes and no file if none was named, and the home has none. */
export async function readRoutes(
  input: Values,
  backend: Sources,
): Promise<{ routes: UpstreamRoute[]; routesFile: string | null }> {
  const file = existingFile("routes", input, backend);
  if (file === undefined) return { routes: [], routesFile: null };
  const routes = await readConfigFile(file, (text) => parseRoutesFile(text), "routes_invalid");
  return { routes, routesFile: file };
}
