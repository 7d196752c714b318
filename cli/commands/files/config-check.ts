import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";
import type { Backend } from "../../backend.ts";
import { CliError } from "../../cli-error.ts";
import type { Command } from "../../command.ts";
import { PROCESSES_FILE, readKnownSystem } from "../../doctor/known-system.ts";
import { EXIT } from "../../exit-code.ts";
import {
  CONFIGURED_SERVICES,
  type ConfiguredService,
  checkServiceConfiguration,
  configurationProblems,
} from "../../service-configuration.ts";
import { oneOf } from "../one-of.ts";

const ENTRIES = new Map(CONFIGURED_SERVICES.map((name) => [name as string, name]));

export const VARIABLES_OPTION: Command["options"] = {
  variables: { type: "string", value: "file", description: "variables, one per line: NAME=value" },
};

export const configCheck: Command = {
  name: "config check",
  summary:
    "Check whether a service could start, with a given configuration; prints every problem, but no value",
  details:
    "Reads what the service reads, so files named by variables must exist here. Without --variables it checks\n" +
    "what `npm start` gave the service of the local Gatehouse's home, or else the environment. Exit code 78 if the service would refuse it.",
  positionals: ["service"],
  options: VARIABLES_OPTION,
  async run({ positionals, values }, backend) {
    const [service = ""] = positionals;
    const name = oneOf("<service>", ENTRIES, service);
    const { environment, source } = variablesOf(name, values.get("variables"), backend);
    const { code, said } = await checkServiceConfiguration(name, environment);
    if (code === 0) {
      const warnings = warningsOf(environment);
      const text = [`${service} could start with this configuration`, ...warnings, source].join("\n");
      return { text, json: { service, problems: [], warnings } };
    }
    if (code !== EXIT.config) {
      throw new CliError(`${service} ended with ${code ?? "a signal"} instead of checking:\n${said.trim()}`, {
        exitCode: EXIT.failed,
        code: "internal_error",
      });
    }
    const problems = configurationProblems(said);
    return { text: `${said.trim()}\n${source}`, json: { service, problems }, exitCode: EXIT.config };
  },
};

type Environment = Readonly<Record<string, string | undefined>>;

/** The home's come before the environment's only where addresses come from the home, too. */
export function variablesOf(
  service: ConfiguredService,
  file: string | undefined,
  backend: Backend,
): { environment: Environment; source: string } {
  if (file !== undefined) return { environment: readEnvironment(file), source: `By ${file}.` };
  const given = backend.isLocal ? readKnownSystem([], backend).environments.get(service) : undefined;
  if (given !== undefined) return { environment: given, source: `By ${join(backend.home, PROCESSES_FILE)}.` };
  return { environment: backend.environment, source: "By the environment." };
}

function readEnvironment(file: string): Record<string, string | undefined> {
  try {
    return parseEnv(readFileSync(file, "utf8"));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new CliError(`${file} cannot be read: ${code ?? message}`, {
      exitCode: EXIT.config,
      code: "configuration",
      cause: error,
    });
  }
}

/** What is wrong between services, where one environment has the variables of both. */
function warningsOf(environment: Readonly<Record<string, string | undefined>>): string[] {
  const { APPROVAL_RETENTION_MONTHS: approvals, AUDIT_RETENTION_MONTHS: log } = environment;
  const { PUBLIC_ORIGIN: origin, TOKEN_ISSUER: issuer } = environment;
  const warnings: string[] = [];
  const months = (text: string) => Number(text) || Number.POSITIVE_INFINITY;
  if (approvals !== undefined && log !== undefined && months(approvals) < months(log)) {
    warnings.push(
      "Warning: APPROVAL_RETENTION_MONTHS is shorter than AUDIT_RETENTION_MONTHS: old approvals could not be proven",
    );
  }
  if (origin !== undefined && issuer !== undefined && origin !== issuer) {
    warnings.push("Warning: PUBLIC_ORIGIN is not TOKEN_ISSUER: no client could use a public key");
  }
  return warnings;
}
