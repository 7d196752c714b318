/** What is slow and rare: run by name before a release, and before work that touches its subject is called done. */
export interface Trial {
  /** What it shows, for `--list`. */
  shows: string;
  /** On two quiet cores, roughly. */
  takes: "a minute" | "minutes" | "half an hour" | "hours";
  /** Stands after `node`, or after `vitest run --project …`. */
  run: { node: readonly string[] } | { vitest: readonly string[] };
  /** What the environment does not set already. */
  env?: Readonly<Record<string, string>>;
}

type Takes = Trial["takes"];

const program = (shows: string, takes: Takes, ...node: string[]): Trial => ({ shows, takes, run: { node } });
const bench = (shows: string, takes: Takes, file: string, ...options: string[]): Trial =>
  program(shows, takes, ...options, `trials/bench/${file}.ts`);
const trial = (shows: string, takes: Takes, file: string, env: Trial["env"] = {}): Trial => ({
  shows,
  takes,
  run: { vitest: ["--project", "trials", `trials/${file}.trial.test.ts`] },
  env,
});
/** A flow that is too large or too slow for CI. */
const flow = (shows: string, takes: Takes, arguments_: string[], env: Trial["env"]): Trial => ({
  shows,
  takes,
  run: { vitest: ["--project", "flows", ...arguments_] },
  env: env ?? {},
});

export const TRIALS: Readonly<Record<string, Trial>> = {
  attack: program(
    "attacks that once succeeded fail on a running npm start",
    "minutes",
    "trials/attack/attack.ts",
  ),
  chaos: trial(
    "random faults for ten minutes; a checker judges what all clients saw",
    "half an hour",
    "chaos/chaos",
    {
      CHAOS_SEED: String(Math.floor(Date.now() / 1_000)),
      CHAOS_SECONDS: "600",
    },
  ),
  "chaos-short": trial("a fault of every kind at every service, always the same", "minutes", "chaos/chaos"),
  cluster: program("a real Kubernetes, disturbed under load", "hours", "trials/cluster/main.ts"),
  failover: trial(
    "PostgreSQL fails over under Patroni; no acknowledged call is lost",
    "half an hour",
    "failover/postgres",
  ),
  "parts-failover": trial(
    "half of the users' sessions fail over under Patroni; the others do not notice",
    "minutes",
    "failover/parts",
  ),
  "redis-failover": trial(
    "Redis fails over under Sentinel; limits and proofs hold",
    "half an hour",
    "failover/redis",
  ),
  "kill-approvals": trial("an approval is used once, whatever is killed", "minutes", "kill/approvals", {
    KILL_ROUNDS: "100",
  }),
  "kill-audit": trial("no audit entry is lost, whatever is killed", "half an hour", "kill/audit", {
    CRASH_ROUNDS: "200",
  }),
  "kill-database": trial("a killed database never answers half a transaction", "minutes", "kill/database", {
    KILL_ROUNDS: "100",
  }),
  "kill-mail": trial("a killed sender loses no mail", "a minute", "kill/mail"),
  "kill-sequencer": trial(
    "another replica takes over the numbering of the audit log",
    "a minute",
    "kill/sequencer",
  ),
  degradation: trial(
    "every fault of docs/degradation.md on a running system, and every call",
    "minutes",
    "degradation/degradation",
  ),
  languages: trial(
    "the packages and client programs of all languages, on a running system",
    "minutes",
    "languages/languages",
  ),
  conformance: program(
    "the rules of all verifiers, of every language that the machine has",
    "minutes",
    "clients/conformance/run.ts",
  ),
  exhaustive: {
    shows:
      "tests of thousands of cases, of large data, or of seconds of waiting; the flows among them are in `flows`",
    takes: "minutes",
    run: { vitest: ["--project", "tests", "--tags-filter", "exhaustive"] },
  },
  // Not those with a tag alone, because a flow goes on where the one before it has ended.
  flows: {
    shows: "every flow, also those that CI leaves out",
    takes: "minutes",
    run: { vitest: ["--project", "flows"] },
  },
  rolling: program("two versions side by side under load", "half an hour", "trials/rolling/rolling.ts"),
  mutation: program("which changes of the code no test notices", "hours", "trials/mutation/mutate.ts"),
  large: flow(
    "a response of 1 GiB streams through",
    "minutes",
    ["tests/flows/calls.flow.test.ts", "-t", "streaming"],
    {
      STREAM_MIB: "1024",
    },
  ),
  tabs: flow(
    "ten tabs live through a thousand expiries",
    "half an hour",
    ["tests/flows/browser.flow.test.ts", "-t", "ten tabs"],
    {
      TAB_EXPIRIES: "1000",
    },
  ),
  screenshots: flow(
    "every page as a picture, to look at",
    "minutes",
    ["tests/flows/pages.flow.test.ts", "-t", "screenshots"],
    {
      SCREENSHOTS: "/tmp/gatehouse-screenshots",
    },
  ),
  bench: bench("what everything costs, beside peers: npm run bench", "minutes", "main"),
  "anonymous-timing": bench(
    "whether an answer's time shows whether an address has an account",
    "minutes",
    "anonymous-timing",
  ),
  "login-timing": bench("whether a refusal's time shows why", "minutes", "login-timing"),
  "audit-logs": bench(
    "audit entries through 1, 2 and 4 logs; who numbers them; one of them away",
    "minutes",
    "audit-logs",
  ),
  "audit-verify": bench("how long `gatehouse audit verify` takes", "minutes", "audit-verify"),
  "busy-session": bench(
    "what strangers notice of one busy session, beside npm start",
    "minutes",
    "busy-session",
  ),
  "client-token": bench("CPU of a client's token request", "a minute", "client-token"),
  growth: bench("what calls cost PostgreSQL with many users", "hours", "growth"),
  pages: bench(
    "first visits on a slow CPU: bytes, when drawn, when ready, how long blocked, beside npm start",
    "a minute",
    "pages",
  ),
  revocation: bench("from a logout to the first 401", "minutes", "revocation"),
  "revocation-log": bench(
    "a million live revocations",
    "minutes",
    "revocation-log",
    "--expose-gc",
    "--max-old-space-size=384",
  ),
  parts: bench("1, 2 and 4 databases of sessions; moves of slots beside refreshes", "minutes", "parts"),
  "row-sizes": bench("bytes of a row; how long `sessions revoke-all` takes", "minutes", "row-sizes"),
  webhooks: bench(
    "from the commit of an event to a webhook at 100 and 1,000 a second; what it and a dead endpoint cost",
    "minutes",
    "webhooks",
  ),
  siem: bench(
    "entries lost and doubled at an OpenTelemetry collector and rsyslog that are killed; time to catch up",
    "a minute",
    "siem",
  ),
  "siem-segments": bench(
    "the audit log in segments on a real S3 server; both are killed, and every entry is proven once",
    "minutes",
    "siem-segments",
  ),
  "user-import": bench("users imported a second, killed once", "half an hour", "user-import"),
};
