import { existsSync } from "node:fs";
import { z } from "zod";
import { addressSchema, ConfigError, parseConfig } from "../service-kit/config.ts";
import { optionOf, type SettingsSources } from "./backend-settings.ts";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";

/** The operations port of each process, and where a local Gatehouse (`npm start`) has it. */
export const OPERATIONS = {
  gateway: {
    address: "GATEWAY_OPERATIONS_ADDRESS",
    localPort: "GATEWAY_OPERATIONS_PORT",
    defaultLocalPort: 9_080,
  },
  "identity-service": {
    address: "IDENTITY_OPERATIONS_ADDRESS",
    localPort: "IDENTITY_OPERATIONS_PORT",
    defaultLocalPort: 9_081,
  },
  "token-service": {
    address: "TOKEN_OPERATIONS_ADDRESS",
    localPort: "TOKEN_OPERATIONS_PORT",
    defaultLocalPort: 9_082,
  },
  "audit-service": {
    address: "AUDIT_OPERATIONS_ADDRESS",
    localPort: "AUDIT_OPERATIONS_PORT",
    defaultLocalPort: 9_083,
  },
} as const;

export interface OperationsAddress {
  /** `token-service`. */
  process: string;
  /** `host:port`. */
  address: string;
}

/**
 * By the rule of `backendSettings`: options win, one by one; the rest comes from `--home`, else from the environment if
 * it names any, else from the local home. A process that was not named is not asked.
 *
 * @throws {CliError} 78, if an address cannot be one or none is known.
 */
export function operationsAddresses(sources: SettingsSources): OperationsAddress[] {
  const { values, environment, defaultHome } = sources;
  const isLocal =
    values.has("home") ||
    (existsSync(defaultHome) && !Object.values(OPERATIONS).some(({ address }) => environment[address]));
  const addresses = Object.entries(OPERATIONS).flatMap(([process, { address: variable, ...local }]) => {
    const found = isLocal
      ? `127.0.0.1:${environment[local.localPort] || local.defaultLocalPort}`
      : environment[variable];
    const address = values.get(optionOf(variable)) ?? found;
    return address === undefined || address === "" ? [] : [{ process, address: checked(variable, address) }];
  });
  if (addresses.length > 0) return addresses;
  const variables = Object.values(OPERATIONS).map(({ address }) => address);
  throw configurationError(`No process to ask. Set ${variables.join(", ")}, their options or --home.`);
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
