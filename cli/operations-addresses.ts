import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { z } from "zod";
import { addressSchema, ConfigError, parseConfig } from "#kit/config/config.ts";
import { optionOf, type SettingsSources } from "./backend-settings.ts";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";
import { localPorts, PORTS_FILE } from "./local-ports.ts";

export const OPERATIONS = {
  gateway: {
    address: "GATEWAY_OPERATIONS_ADDRESS",
    localPort: "GATEWAY_OPERATIONS_PORT",
  },
  "identity-service": {
    address: "IDENTITY_OPERATIONS_ADDRESS",
    localPort: "IDENTITY_OPERATIONS_PORT",
  },
  "token-service": {
    address: "TOKEN_OPERATIONS_ADDRESS",
    localPort: "TOKEN_OPERATIONS_PORT",
  },
  "audit-service": {
    address: "AUDIT_OPERATIONS_ADDRESS",
    localPort: "AUDIT_OPERATIONS_PORT",
  },
  "event-service": {
    address: "EVENT_OPERATIONS_ADDRESS",
    localPort: "EVENT_OPERATIONS_PORT",
  },
} as const;

export interface OperationsAddress {
  process: string;
  address: string;
}

/** Has the precedence of `backendSettings`. @throws {CliError} 78. */
export function operationsAddresses(sources: SettingsSources): OperationsAddress[] {
  const { values, environment, defaultHome } = sources;
  const isLocal =
    values.has("home") ||
    (existsSync(defaultHome) && !Object.values(OPERATIONS).some(({ address }) => environment[address]));
  const home = isLocal ? resolve(values.get("home") ?? defaultHome) : undefined;
  const found = home === undefined ? environment : addressesIn(home);
  const addresses = Object.entries(OPERATIONS).flatMap(([process, { address: variable }]) => {
    const address = values.get(optionOf(variable)) ?? found[variable];
    return address === undefined || address === "" ? [] : [{ process, address: checked(variable, address) }];
  });
  if (addresses.length > 0) return addresses;
  if (home !== undefined) {
    throw configurationError(
      `No process to ask: ${home} has no ${PORTS_FILE}. Has \`npm start\` been run on it?`,
    );
  }
  const variables = Object.values(OPERATIONS).map(({ address }) => address);
  throw configurationError(`No process to ask. Set ${variables.join(", ")}, their options or --home.`);
}

function addressesIn(home: string): Readonly<Record<string, string | undefined>> {
  const ports = localPorts(home) ?? {};
  const places = Object.values(OPERATIONS).map(({ address, localPort }) => {
    const port = ports[localPort];
    return [address, port === undefined ? undefined : `127.0.0.1:${port}`] as const;
  });
  return Object.fromEntries(places);
}

function checked(variable: string, address: string): string {
  try {
    parseConfig(z.object({ [variable]: addressSchema }), { [variable]: address });
    return address;
  } catch (error) {
    if (error instanceof ConfigError) throw configurationError(error.message);
    throw error;
  }
}

function configurationError(message: string): CliError {
  return new CliError(message, { exitCode: EXIT.config, code: "configuration" });
}
