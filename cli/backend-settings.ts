import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { z } from "zod";
import { addressSchema, ConfigError, parseConfig, tlsConfig } from "#kit/config/config.ts";
import { type TlsFiles, tlsFilesOf } from "#kit/rpc/rpc-tls.ts";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";
import { localPorts, PORTS_FILE } from "./local-ports.ts";

export const SERVICES = {
  "token-service": { address: "TOKEN_SERVICE_ADDRESS", localPort: "TOKEN_PORT" },
  "identity-service": {
    address: "IDENTITY_SERVICE_ADDRESS",
    localPort: "IDENTITY_PORT",
  },
  "audit-service": { address: "AUDIT_SERVICE_ADDRESS", localPort: "AUDIT_PORT" },
  "event-service": { address: "EVENT_SERVICE_ADDRESS", localPort: "EVENT_PORT" },
} as const;

export type BackendService = keyof typeof SERVICES;

export interface BackendSettings {
  /** `host:port`. */
  address: string;
  tls: TlsFiles;
}

export interface SettingsSources {
  values: ReadonlyMap<string, string>;
  environment: Readonly<Record<string, string | undefined>>;
  defaultHome: string;
}

/** `TLS_CERT_FILE` becomes `--tls-cert-file`. */
export function optionOf(variable: string): string {
  return variable.toLowerCase().replaceAll("_", "-");
}

/**
 * Options override single values. The rest has one source (`--home`, environment or default home), so that a certificate is
 * not sent to another Gatehouse. @throws {CliError} 78 with all problems.
 */
export function backendSettings(service: BackendService, sources: SettingsSources): BackendSettings {
  const schema = z.object({ [SERVICES[service].address]: addressSchema, ...tlsConfig });
  const variables = Object.keys(schema.shape);
  const { from, found } = base(service, sources, variables);
  const given = variables.map((name) => [name, sources.values.get(optionOf(name)) ?? found[name]] as const);
  try {
    const config = parseConfig(schema, Object.fromEntries(given));
    const address = (config as Record<string, string>)[SERVICES[service].address] ?? "";
    return { address, tls: tlsFilesOf(config as Parameters<typeof tlsFilesOf>[0]) };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new CliError(`${error.message}\n${from}`, {
      exitCode: EXIT.config,
      code: "configuration",
      cause: error,
    });
  }
}

type Found = Readonly<Record<string, string | undefined>>;

function base(
  service: BackendService,
  { values, environment, defaultHome }: SettingsSources,
  variables: readonly string[],
): { from: string; found: Found } {
  const home = values.get("home");
  const namesAny = variables.some((name) => environment[name]);
  if (home === undefined && namesAny) {
    const from = "Read from the environment, which comes before a home: name that with --home.";
    return { from, found: environment };
  }
  if (home === undefined && !existsSync(defaultHome)) {
    return { from: "Set these variables, their options (--tls-cert-file, …) or --home.", found: {} };
  }
  const path = resolve(home ?? defaultHome);
  const hint = `Read from the home ${path}: has \`npm start\` been run on it? It writes tls and ${PORTS_FILE}.`;
  return { from: hint, found: ofHome(service, path) };
}

function ofHome(service: BackendService, home: string): Found {
  const { address, localPort } = SERVICES[service];
  const port = localPorts(home)?.[localPort];
  return {
    [address]: port === undefined ? undefined : `127.0.0.1:${port}`,
    TLS_CERT_FILE: join(home, "tls", "operator.crt"),
    TLS_KEY_FILE: join(home, "tls", "operator.key"),
    TLS_CA_FILE: join(home, "tls", "ca.crt"),
  };
}
