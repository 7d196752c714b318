import { readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { parseEnv } from "node:util";
import { nearestNames } from "#kit/values/nearest-names.ts";
import type { Home } from "./home.ts";
import { readIfPresent } from "./private-file.ts";

/** Loaded only when needed, because all of them take a second. */
const SCHEMAS = {
  gateway: () => import("#gateway/config.ts"),
  "identity-service": () => import("#identity-service/config.ts"),
  "token-service": () => import("#token-service/config.ts"),
  "audit-service": () => import("#audit-service/config.ts"),
  "event-service": () => import("#event-service/config.ts"),
  "payments-service": () => import("#clients/examples/payments-service/config.ts"),
};

export type ConfiguredService = keyof typeof SCHEMAS;
export type ServiceSettings = Partial<Record<ConfiguredService, Record<string, string>>>;

const SERVICES = Object.keys(SCHEMAS) as ConfiguredService[];
const isService = (name: string): name is ConfiguredService => Object.hasOwn(SCHEMAS, name);
const ENDING = ".env";
const IS_PATH = /_(?:FILE|DIR|DIRECTORY)$/;

/** What `npm start` sets itself, and what to do instead. */
function insteadOf(variable: string, service: ConfiguredService, home: Home): string | undefined {
  const port = (name: string) => name.replace("-service", "").toUpperCase();
  const [, peer] = /^(\w+)_SERVICE_ADDRESS$/.exec(variable) ?? [];
  if (peer !== undefined) return `set ${peer}_PORT`;
  if (variable === "LISTEN_ADDRESS") return `set ${port(service)}_PORT`;
  if (variable === "OPERATIONS_ADDRESS") return `set ${port(service)}_OPERATIONS_PORT`;
  if (variable === "HEALTH_ADDRESS") return `set ${port(service)}_HEALTH_PORT`;
  if (/^TLS_/.test(variable)) return `it issues the certificates in ${home.tls}`;
  if (/^DATABASE_(?!POOL_)/.test(variable))
    return "set GATEHOUSE_POSTGRES_URL, or start with --postgres <url>";
  if (variable === "ROUTES_FILE") return `edit ${home.routesFile}`;
  if (variable === "ACCESS_FILE") return `edit ${home.accessFile}`;
  if (variable === "OAUTH_PROVIDERS_FILE") return `edit ${home.providersFile}`;
  if (variable === "BOOTSTRAP_ADMIN_EMAIL") return "set GATEHOUSE_ADMIN_EMAIL";
  if (variable === "BOOTSTRAP_ADMIN_PASSWORD_FILE") return "set GATEHOUSE_ADMIN_PASSWORD";
  return undefined;
}

interface Given {
  /** For messages. */
  where: string;
  service: string;
  values: Record<string, string>;
  /** Of relative paths. */
  folder: string;
}

/**
 * Reads `<home>/services/<service>.env` and `--set <service>.<NAME>=<value>`, which is stronger.
 * @returns also every problem: a line that is not `NAME=value`, an unknown service or name, what `npm start` sets itself.
 */
export async function readServiceSettings(
  home: Home,
  sets: readonly Assignment[],
  folder: string,
): Promise<{ services: ServiceSettings; problems: string[] }> {
  const { files, problems } = await readServiceFiles(home);
  const services: ServiceSettings = {};
  const fromSets = sets.map(({ service, name, value }): Given => {
    return { where: "--set", service: service ?? "", values: { [name]: value }, folder };
  });
  for (const { where, service, values, folder } of [...files, ...fromSets]) {
    if (!isService(service)) {
      problems.push(`${where}: ${service} is no service. These are: ${SERVICES.join(", ")}`);
      continue;
    }
    const { configSchema } = await SCHEMAS[service]();
    for (const [name, value] of Object.entries(values)) {
      const instead = insteadOf(name, service, home);
      if (!(name in configSchema.shape)) {
        problems.push(`${where}: ${await unknown(name, service, Object.keys(configSchema.shape))}`);
      } else if (instead !== undefined) {
        problems.push(`${where}: npm start sets ${name} of ${service} itself: ${instead}`);
      }
      services[service] = { ...services[service], [name]: resolvedValue(name, value, folder) };
    }
  }
  return { services, problems };
}

async function readServiceFiles(home: Home): Promise<{ files: Given[]; problems: string[] }> {
  const names = (await readdir(home.services)).filter((name) => name.endsWith(ENDING)).sort();
  const problems: string[] = [];
  const files: Given[] = [];
  for (const name of names) {
    const read = parseSettings((await readIfPresent(join(home.services, name))) ?? "");
    const where = join(home.services, name);
    problems.push(...read.problems.map((problem) => `${where}: ${problem}`));
    files.push({ where, service: name.slice(0, -ENDING.length), values: read.values, folder: home.path });
  }
  return { files, problems };
}

/** Lines of `NAME=value`; `#` begins a comment. */
export function parseSettings(text: string): { values: Record<string, string>; problems: string[] } {
  const problems = text.split("\n").flatMap((line, index) => {
    const isFine = /^\s*(?:#.*|(?:export\s+)?[A-Za-z_]\w*\s*=.*)?$/.test(line.trimEnd());
    return isFine ? [] : [`line ${index + 1} is not NAME=value`];
  });
  return { values: { ...parseEnv(text) } as Record<string, string>, problems };
}

async function unknown(name: string, service: ConfiguredService, known: readonly string[]): Promise<string> {
  const others = SERVICES.filter((other) => other !== service);
  const schemas = await Promise.all(
    others.map(async (other) => ({ other, shape: (await SCHEMAS[other]()).configSchema.shape })),
  );
  const owners = schemas.filter(({ shape }) => name in shape).map(({ other }) => other);
  const [nearest] = nearestNames(name, known);
  const hint = owners.length > 0 ? `${owners.join(" and ")} reads it` : nearest && `did you mean ${nearest}?`;
  return `${service} reads no ${name}${hint === undefined ? "" : `: ${hint}`}`;
}

/** Makes a relative path absolute. */
export function resolvedValue(name: string, value: string, folder: string): string {
  return IS_PATH.test(name) && value !== "" ? resolve(folder, value) : value;
}

export interface Assignment {
  /** Undefined for `npm start` itself. */
  service: string | undefined;
  name: string;
  value: string;
}

/** `gateway.NAME=value`, or `NAME=value` for `npm start` itself. */
export function parseAssignment(text: string): Assignment | undefined {
  const [, service, name, value] = /^(?:([a-z][a-z-]*)\.)?([A-Za-z_]\w*)=(.*)$/s.exec(text) ?? [];
  return name === undefined || value === undefined ? undefined : { service, name, value };
}
