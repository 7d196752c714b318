import { readFileSync } from "node:fs";
import { parseEnv } from "node:util";
import { CliError } from "../../cli-error.ts";
import type { Command } from "../../command.ts";
import { EXIT } from "../../exit-code.ts";
import {
  CONFIGURED_SERVICES,
  checkServiceConfiguration,
  configurationProblems,
} from "../../service-configuration.ts";
import { oneOf } from "../one-of.ts";

const ENTRIES = new Map(CONFIGURED_SERVICES.map((name) => [name as string, name]));

export const configCheck: Command = {
  name: "config check",
  summary: "Check whether a service could start with a configuration; prints every problem, but no value",
  details:
    "Reads what the service reads, so files named by variables must exist here. Without --variables the current\n" +
    "environment is checked. Exit code 78 if the service would refuse it.",
  positionals: ["service"],
  options: {
    variables: { type: "string", value: "file", description: "variables, one per line: NAME=value" },
  },
  async run({ positionals, values }, backend) {
    const [service = ""] = positionals;
    const name = oneOf("<service>", ENTRIES, service);
    const file = values.get("variables");
    const environment = file === undefined ? backend.environment : readEnvironment(file);
    const { code, said } = await checkServiceConfiguration(name, environment);
    if (code === 0) {
      const warnings = warningsOf(environment);
      const text = [`${service} could start with this configuration`, ...warnings].join("\n");
      return { text, json: { service, problems: [], warnings } };
    }
    if (code !== EXIT.config) {
      throw new CliError(`${service} ended with ${code ?? "a signal"} instead of checking:\n${said.trim()}`, {
        exitCode: EXIT.failed,
        code: "internal_error",
      });
    }
    const problems = configurationProblems(said);
    return { text: said.trim(), json: { service, problems }, exitCode: EXIT.config };
  },
};

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
