import { USAGE } from "./usage.ts";

/** Programs by the container's first argument. */
const PROGRAMS: Readonly<Record<string, () => Promise<unknown>>> = {
  gateway: () => import("#gateway/main.ts"),
  "identity-service": () => import("#identity-service/main.ts"),
  "token-service": () => import("#token-service/main.ts"),
  "audit-service": () => import("#audit-service/main.ts"),
  "event-service": () => import("#event-service/main.ts"),
  "payments-service": () => import("#clients/examples/payments-service/main.ts"),
  migrate: () => import("./migrate.ts"),
  "await-schema": () => import("./await-schema.ts"),
  "drain-spool": () => import("./drain-spool.ts"),
  gatehouse: () => import("#cli/main.ts"),
};

const EXIT_USAGE = 64;
/** 128 + SIGTERM. */
const EXIT_TERMINATED = 143;

const name = process.argv[2] ?? "";
const program = Object.hasOwn(PROGRAMS, name) ? PROGRAMS[name] : undefined;
if (program === undefined) {
  process.stderr.write(`${USAGE}\n`);
  process.exit(EXIT_USAGE);
}

// The kernel drops signals that process 1 does not handle. Before the program handles them, nothing is left to finish.
const end = () => process.exit(EXIT_TERMINATED);
for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, end);
process.argv.splice(2, 1); // Removes the program's name.
await program();
for (const signal of ["SIGTERM", "SIGINT"] as const) process.off(signal, end);
