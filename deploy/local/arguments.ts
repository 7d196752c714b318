import { LaunchError } from "./launch-error.ts";

/** What `--help` prints, and a wrong argument. */
export const USAGE = `Usage: npm start [-- --fresh]

Runs Gatehouse on this machine: PostgreSQL, the services, the gateway, an example API, a mailbox and an
identity provider to try.

  --fresh   remove all data of earlier starts first
  --help    this text

Environment: GATEHOUSE_HOME (where the data is kept; .gatehouse in the repository), GATEWAY_PORT and the
other ports, GATEHOUSE_ADMIN_EMAIL and GATEHOUSE_ADMIN_PASSWORD (at the first start), LOG_LEVEL.`;

/** What the command line asks for. */
export interface Arguments {
  fresh: boolean;
  help: boolean;
}

/** @throws {LaunchError} (64) naming every argument it does not know. */
export function parseArguments(given: readonly string[]): Arguments {
  const unknown = given.filter((argument) => !["--fresh", "--help", "-h"].includes(argument));
  if (unknown.length > 0) {
    throw new LaunchError(`Unknown argument: ${unknown.join(" ")}\n\n${USAGE}`, { exitCode: 64 });
  }
  return { fresh: given.includes("--fresh"), help: given.includes("--help") || given.includes("-h") };
}
