/**
 * What each kind of call is answered while something is away: a status, and the error's code if there is one. The table of
 * docs/degradation.md is made from it, and the flow makes every fault and asks every call.
 */
export const CALLS = {
  keys: "`GET /.well-known/jwks.json`",
  page: "`GET /account/login`",
  login: "`POST /auth/login`",
  refresh: "`POST /auth/refresh`",
  logout: "`POST /auth/logout`",
  account: "`GET /auth/me`",
  known: "`GET /payments` with a token seen before",
  fresh: "`GET /payments` with a new token",
  pay: "`POST /payments`",
  register: "`POST /auth/register`",
  log: "`GET /admin/audit`",
  webhooks: "`GET /admin/webhooks`",
} as const;

export type CallName = keyof typeof CALLS;
export type Row = Readonly<Record<CallName, string>>;

/** These can be asked again and again. */
export const REPEATED: readonly CallName[] = ["keys", "page", "account", "known", "log", "webhooks"];

export const chosen = (row: Row, names: readonly CallName[]) =>
  Object.fromEntries(names.map((name) => [name, row[name]]));

export const HEALTHY: Row = {
  keys: "200",
  page: "200",
  login: "200",
  refresh: "200",
  logout: "200",
  account: "200",
  known: "200",
  fresh: "200",
  pay: "201",
  register: "201",
  log: "200",
  webhooks: "200",
};

const AWAY = "503 service_unavailable";

/** Every call about accounts. */
const WITHOUT_ACCOUNTS = { login: AWAY, account: AWAY, register: AWAY };
/** After 3 s: a revocation may have been missed. */
const WITHOUT_TOKENS = {
  login: AWAY,
  refresh: AWAY,
  logout: AWAY,
  account: AWAY,
  known: AWAY,
  fresh: AWAY,
  pay: AWAY,
  log: AWAY,
  webhooks: AWAY,
};
/** The gateway alone has no way there: identity-service, which calls token-service for a login, has. */
const GATEWAY_WITHOUT_TOKENS = { ...WITHOUT_TOKENS, login: "200" };
/** The gateway's spool takes the entries of changing calls. */
const WITHOUT_LOG = { log: AWAY };
const WITHOUT_EVENTS = { webhooks: AWAY };

/** Every call that is recorded is refused before it has an effect: changes, and what administrators read. */
const UNRECORDED = "503 audit_unavailable";
const WITHOUT_RECORDS = {
  log: UNRECORDED,
  webhooks: UNRECORDED,
  login: UNRECORDED,
  refresh: UNRECORDED,
  logout: UNRECORDED,
  pay: UNRECORDED,
  register: UNRECORDED,
};
/** It signs nothing, and verifies no token that a gateway has not seen. */
const WITHOUT_TRUE_CLOCK = { login: AWAY, refresh: AWAY, logout: AWAY, fresh: AWAY };
const CLOCKS = { "clock ahead": {}, "clock behind": {} };

/** What is away, how, and what is answered otherwise than in health. */
const FAULTS = {
  gateway: { "full disk": {}, "full disk, and audit-service killed": WITHOUT_RECORDS, ...CLOCKS },
  "identity-service": {
    "clock ahead": WITHOUT_ACCOUNTS,
    "clock behind": WITHOUT_ACCOUNTS,
    killed: WITHOUT_ACCOUNTS,
    frozen: WITHOUT_ACCOUNTS,
    "behind a silent network": WITHOUT_ACCOUNTS,
    "another certificate": WITHOUT_ACCOUNTS,
    slow: {},
  },
  "token-service": {
    "clock ahead": WITHOUT_TRUE_CLOCK,
    "clock behind": WITHOUT_TRUE_CLOCK,
    killed: WITHOUT_TOKENS,
    frozen: WITHOUT_TOKENS,
    "behind a silent network": GATEWAY_WITHOUT_TOKENS,
    "another certificate": GATEWAY_WITHOUT_TOKENS,
    slow: {},
  },
  "audit-service": {
    ...CLOCKS,
    killed: WITHOUT_LOG,
    frozen: WITHOUT_LOG,
    "behind a silent network": WITHOUT_LOG,
    "another certificate": WITHOUT_LOG,
    slow: {},
  },
  "event-service": {
    ...CLOCKS,
    killed: WITHOUT_EVENTS,
    frozen: WITHOUT_EVENTS,
    "behind a silent network": WITHOUT_EVENTS,
    "another certificate": WITHOUT_EVENTS,
    slow: {},
  },
  "identity's database": {
    refused: WITHOUT_ACCOUNTS,
    "behind a silent network": WITHOUT_ACCOUNTS,
    "read-only": { login: AWAY, register: AWAY },
    "no connection left": WITHOUT_ACCOUNTS,
    slow: {},
  },
  "token's database": {
    refused: WITHOUT_TOKENS,
    "behind a silent network": WITHOUT_TOKENS,
    "read-only": { login: AWAY, refresh: AWAY, logout: AWAY },
    "no connection left": WITHOUT_TOKENS,
    slow: {},
  },
  "audit's database": {
    refused: WITHOUT_LOG,
    "behind a silent network": WITHOUT_LOG,
    "read-only": {},
    "no connection left": WITHOUT_LOG,
    slow: {},
  },
  "event's database": {
    refused: WITHOUT_EVENTS,
    "behind a silent network": WITHOUT_EVENTS,
    "read-only": {},
    "no connection left": WITHOUT_EVENTS,
    slow: {},
  },
  PostgreSQL: { killed: { ...WITHOUT_ACCOUNTS, ...WITHOUT_TOKENS } },
  Redis: { refused: {}, "behind a silent network": {}, "restarted empty": {}, slow: {} },
  "Redis under Sentinel": { "primary killed, none elected": {}, "most sentinels killed": {} },
  "the mail server": { refused: {}, "behind a silent network": {} },
  "an upstream": {
    refused: {
      known: "502 upstream_unavailable",
      fresh: "502 upstream_unavailable",
      pay: "502 upstream_unavailable",
    },
    "behind a silent network": {
      known: "504 upstream_timeout",
      fresh: "504 upstream_timeout",
      pay: "504 upstream_timeout",
    },
    slow: {},
  },
  "one of two audit logs": { refused: WITHOUT_LOG, "behind a silent network": WITHOUT_LOG },
} as const satisfies Record<string, Record<string, Partial<Row>>>;

export type Part = keyof typeof FAULTS;

export interface Fault {
  part: Part;
  what: string;
  expected: Row;
}

export const ALL_FAULTS: readonly Fault[] = Object.entries(FAULTS).flatMap(([part, faults]) =>
  Object.entries(faults).map(([what, differs]) => ({
    part: part as Part,
    what,
    expected: { ...HEALTHY, ...differs },
  })),
);

const NAMES = Object.keys(CALLS) as CallName[];
const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;

/** The table of docs/degradation.md: what is answered otherwise than in health, and below it the calls and codes. */
export function contractTable(): string {
  const rows: { part: string; ways: string[]; answers: string }[] = [];
  for (const { part, what, expected } of ALL_FAULTS) {
    const answers = answersOf(expected);
    const same = rows.find((row) => row.part === part && row.answers === answers);
    if (same === undefined) rows.push({ part, ways: [what], answers });
    else same.ways.push(what);
  }
  const head = ["What is away", "How", "Answered otherwise"];
  const body = rows.map(({ part, ways, answers }) => [part, ways.join("; "), answers]);
  const codes = new Set(
    ALL_FAULTS.flatMap(({ expected }) => changesOf(expected).map((name) => expected[name])),
  );
  const legend = [...codes].sort().map((answer) => `${answer.replace(" ", " `")}\``);
  const calls = NAMES.map((name) => `${name} ${CALLS[name]}`);
  return `${[head, head.map(() => "---"), ...body].map(line).join("\n")}\n
The calls are ${calls.join(", ")}. The codes are ${legend.join(", ")}.`;
}

const changesOf = (expected: Row) => NAMES.filter((name) => expected[name] !== HEALTHY[name]);

function answersOf(expected: Row): string {
  const statuses = new Set(changesOf(expected).map((name) => expected[name].slice(0, 3)));
  return [...statuses]
    .map((status) => `${status}: ${NAMES.filter((name) => expected[name].startsWith(status)).join(", ")}`)
    .join("; ");
}
