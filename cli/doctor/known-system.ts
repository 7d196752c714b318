import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { z } from "zod";
import { spiffeName } from "#kit/rpc/rpc-tls.ts";
import type { Backend } from "../backend.ts";
import { CliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import {
  CONFIGURED_SERVICES,
  type ConfiguredService,
  isConfiguredService,
} from "../service-configuration.ts";
import { UsageError } from "../usage-error.ts";
import { type Finding, failed, reasonOf, unchecked } from "./finding.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

/** What is known of a system's services before any is asked. */
export interface KnownSystem {
  /** By service: the variables that it was given. */
  environments: ReadonlyMap<ConfiguredService, Environment>;
  /** Made by `npm start`. */
  home: string | undefined;
  /** Why an environment is not known. */
  findings: readonly Finding[];
}

/** Written by each `npm start`. */
export const PROCESSES_FILE = "processes.json";
const processesSchema = z.record(z.string(), z.record(z.string(), z.string()));

/**
 * The services' variables: from `--variables`, else as `npm start` has given them, else this process's own, as in a
 * service's pod. @throws {UsageError}. @throws {CliError} 78 for a file that cannot be read.
 */
export function readKnownSystem(files: readonly string[], backend: Backend): KnownSystem {
  const home = backend.isLocal ? backend.home : undefined;
  if (files.length > 0) {
    const environments = new Map(files.map(readFile));
    if (environments.size < files.length)
      throw new UsageError("--variables names a service twice", "gatehouse doctor --help");
    return { home, findings: [], environments };
  }
  if (home !== undefined) return { home, ...readProcesses(home) };
  return { home, ...readOwn(backend.environment) };
}

function readFile(given: string): [ConfiguredService, Environment] {
  const [, service = "", path = ""] = /^([^=]+)=(.+)$/.exec(given) ?? [];
  if (!isConfiguredService(service)) {
    const problem = `--variables takes <service>=<file>, of ${CONFIGURED_SERVICES.join(", ")}`;
    throw new UsageError(problem, "gatehouse doctor --help");
  }
  try {
    return [service, parseEnv(readFileSync(path, "utf8"))];
  } catch (error) {
    throw new CliError(`${path} cannot be read: ${reasonOf(error)}`, {
      exitCode: EXIT.config,
      code: "configuration",
      cause: error,
    });
  }
}

/** As the last `npm start` has given them. */
export function readProcesses(home: string): Pick<KnownSystem, "environments" | "findings"> {
  const path = join(home, PROCESSES_FILE);
  try {
    const given = processesSchema.parse(JSON.parse(readFileSync(path, "utf8")));
    const known = CONFIGURED_SERVICES.flatMap((name) => {
      const environment = given[name];
      return environment === undefined ? [] : [[name, environment] as const];
    });
    return { environments: new Map(known), findings: [] };
  } catch (error) {
    const finding = failed(
      "configuration",
      "npm start",
      `${path} cannot be read (${reasonOf(error)})`,
      "Run npm start on this home: it writes the file",
    );
    return { environments: new Map(), findings: [finding] };
  }
}

/** Used in a service's container. */
function readOwn(environment: Environment): Pick<KnownSystem, "environments" | "findings"> {
  if (environment.LISTEN_ADDRESS) {
    const name = ownName(environment.TLS_CERT_FILE);
    if (name !== undefined) return { environments: new Map([[name, environment]]), findings: [] };
  }
  const why = "the services' variables are not known here";
  const action = "Name them with --variables <service>=<file>, or run this in a service's container";
  const findings = (["configuration", "database", "redis"] as const).map((area) =>
    unchecked(area, "all services", why, action),
  );
  return { environments: new Map(), findings };
}

function ownName(path: string | undefined): ConfiguredService | undefined {
  try {
    const { subjectAltName } = new X509Certificate(readFileSync(path ?? ""));
    const name = spiffeName({ subjectaltname: subjectAltName }) ?? "";
    return isConfiguredService(name) ? name : undefined;
  } catch {
    return undefined;
  }
}
