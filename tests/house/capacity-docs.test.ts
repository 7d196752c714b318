import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";
import { configSchema as auditConfig } from "#audit-service/config.ts";
import { configSchema as eventConfig } from "#event-service/config.ts";
import { configSchema as gatewayConfig } from "#gateway/config.ts";
import { type ClassLimits, defaultLimitClasses, limitClassesSchema } from "#gateway/limits/limit-class.ts";
import { configSchema as identityConfig } from "#identity-service/config.ts";
import { parseRoutesFile } from "#routes-file/routes-file.ts";
import { configSchema as tokenConfig } from "#token-service/config.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const DOCS = join(ROOT, "docs");
const capacity = readFileSync(join(DOCS, "operations", "capacity.md"), "utf8");
const config = readFileSync(join(DOCS, "config.md"), "utf8");
const classes: Record<string, ClassLimits> = defaultLimitClasses();
const numberIn = (text = "") => Number(text.replaceAll(",", ""));

/** The documented totals: the variable's entry, its default, and what each size needs, in calls a minute. */
const rows = [...capacity.matchAll(/^\| `(\w+)\.total` +\| ([\d,]+) +\|(.*)\|$/gm)].map(
  ([, name = "", standard, needed = ""]) => ({
    name,
    standard: numberIn(standard),
    needed: needed.split("|").map((cell) => numberIn(cell.trim())),
  }),
);

test("capacity.md names every limit that is shared, as it is", () => {
  const shared = Object.entries(classes).flatMap(([name, { total }]) =>
    total === undefined ? [] : [[name, (total.calls / total.perSeconds) * 60]],
  );
  expect(rows.map(({ name, standard }) => [name, standard])).toEqual(shared);
});

test.each(rows)("the default of $name is enough for every size that is planned", ({ standard, needed }) => {
  expect(needed).toHaveLength(3);
  for (const calls of needed) expect(calls).toBeLessThanOrEqual(standard);
});

test("the planned peaks of logins are those of the table of sizes", () => {
  const [, ...perSecond] =
    /^\| Logins\/s, peak +\| ([\d.]+) +\| ([\d.]+) +\| ([\d.]+) +\|$/m.exec(capacity) ?? [];
  const perMinute = perSecond.map((text) => Math.round(Number(text) * 60));
  expect(rows.find(({ name }) => name === "login")?.needed).toEqual(perMinute);
});

test("refreshes, logouts and forwarded calls have no limit that is shared", () => {
  for (const name of ["refresh", "logout", "account"]) expect(classes[name]?.total).toBeUndefined();
  const [route] = parseRoutesFile(
    "routes: [{ prefix: /a, upstream: 'http://a', methods: { GET: { roles: [USER] } } }]",
  );
  expect(route?.rateLimit.total).toBeUndefined();
});

test("what capacity.md and config.md say to set can be set", () => {
  const texts = [...`${capacity}${config}`.matchAll(/`RATE_LIMITS=([^`]+)`/g)].map(([, text]) => text);
  expect(texts).toHaveLength(2);
  for (const text of texts) expect(limitClassesSchema.safeParse(text).success).toBe(true);
});

test("config.md names every class with its limits", () => {
  const documented = [...config.matchAll(/^- `(\w+)`(?: \([^)]*\))?: ([\d,]+) of a network(.*)$/gm)].map(
    ([, name, address, rest = ""]) => {
      const user = / ([\d,]+) of a user/.exec(rest)?.[1];
      const device = / ([\d,]+) of a known device/.exec(rest)?.[1];
      const total = / ([\d,]+) of all strangers/.exec(rest)?.[1];
      return [
        name,
        [address, user, device, total].map((text) => (text === undefined ? undefined : numberIn(text))),
      ];
    },
  );
  const actual = Object.entries(classes).map(([name, { address, user, device, total }]) => [
    name,
    [address.calls, user?.calls, device?.calls, total?.calls],
  ]);
  expect(documented).toEqual(actual);
});

const SCHEMAS: Record<string, z.ZodObject> = {
  gateway: gatewayConfig,
  "identity-service": identityConfig,
  "token-service": tokenConfig,
  "audit-service": auditConfig,
  "event-service": eventConfig,
};
const schemaOf = (service: string, variable: string) =>
  SCHEMAS[service]?.shape[variable] ?? z.never(`${service} has no ${variable}`);

/** Of the table of variables: 10,000 users, and the three sizes. */
const variables = [...capacity.matchAll(/^\| ([a-z-]+) \| `([A-Z_]+)`[^|]*\| ([\d,]+) \| (.*) \|$/gm)].map(
  ([, service = "", variable = "", standard, values = ""]) => ({
    service,
    variable,
    standard: numberIn(standard),
    values: values.split(" | ").map((cell) => (cell === "–" ? undefined : numberIn(cell))),
  }),
);
const valuesOf = (service: string, variable: string) =>
  variables.find((each) => each.service === service && each.variable === variable)?.values;

/** Of the list of variables whose default is enough at every size. */
const untouched = [...capacity.matchAll(/^- ([a-z-]+): (`[A-Z_]+`.*)$/gm)].flatMap(
  ([, service = "", list = ""]) =>
    [...list.matchAll(/`([A-Z_]+)`/g)].map(([, variable = ""]) => ({ service, variable })),
);

/** First numbers of a row of the table of sizes. */
const sizesOf = (row: string) => {
  const cells = capacity.match(new RegExp(`^\\| ${row} +\\|(.*)\\|$`, "m"))?.[1]?.split("|") ?? [];
  return cells.map((cell) => numberIn(/[\d,]+/.exec(cell)?.[0]));
};

const SIZED: Record<string, RegExp> = {
  gateway: /^(RATE_LIMIT_REPLICAS|VERIFIED_TOKENS_MAX|MAX_CONNECTIONS)$/,
  "identity-service":
    /(_REPLICAS|DATABASE_POOL_SIZE|HASH_QUEUE_MAX|_GLOBAL_BUDGET|RETENTION_MONTHS|ACCOUNT_DAYS)$/,
  "token-service": /(POOL_SIZE|VERIFIED_TOKENS_MAX|MAX_SESSIONS_PER_USER)$/,
  "audit-service": /(POOL_SIZE|RETENTION_MONTHS)$/,
  "event-service": /POOL_SIZE$/,
};

test.each(Object.keys(SCHEMAS))("every variable of %s that a size decides is named", (service) => {
  const sized = Object.keys(SCHEMAS[service]?.shape ?? {}).filter((name) => SIZED[service]?.test(name));
  const named = [...variables, ...untouched].filter((each) => each.service === service);
  expect(named.map(({ variable }) => variable).sort()).toEqual(sized.sort());
});

test.each(variables)(
  "$variable of $service has the default that is documented, and takes each value",
  (row) => {
    const schema = schemaOf(row.service, row.variable);
    expect(z.parse(schema, undefined)).toBe(row.standard);
    expect(row.values).toHaveLength(4);
    for (const value of row.values) {
      if (value !== undefined) expect(z.parse(schema, String(value))).toBe(value);
    }
  },
);

test("the numbers of replicas to set are those of the table of sizes", () => {
  expect(valuesOf("gateway", "RATE_LIMIT_REPLICAS")?.slice(1)).toEqual(
    sizesOf("\\*\\*gateway\\*\\*, replicas"),
  );
  expect(valuesOf("identity-service", "THROTTLE_REPLICAS")?.slice(1)).toEqual(
    sizesOf("\\*\\*identity-service\\*\\*, cores"),
  );
});

test("the connections of all databases are those of the pools", () => {
  const [identity = [], token = [], audit = [], event = []] = [
    "identity-service\\*\\*, cores",
    "token-service\\*\\*, replicas",
    "audit-service\\*\\*, replicas",
    "event-service\\*\\*, replicas",
  ].map((row) => sizesOf(`\\*\\*${row}`));
  const pool = (service: string) => Number(z.parse(schemaOf(service, "DATABASE_POOL_SIZE"), undefined));
  const connections = identity.map(
    (replicas, size) =>
      replicas * pool("identity-service") +
      (token[size] ?? 0) * pool("token-service") +
      (audit[size] ?? 0) * (pool("audit-service") + 5) +
      (event[size] ?? 0) * pool("event-service"),
  );
  expect(connections).toHaveLength(3);
  expect(sizesOf("Connections, all databases")).toEqual(connections);
});

/** A number of the code: `60 * 60_000`. */
function constantIn(path: string, name: string): number {
  const text = new RegExp(`^(?:export )?const ${name} = ([\\d_ *]+);$`, "m").exec(
    readFileSync(join(ROOT, path), "utf8"),
  )?.[1];
  if (text === undefined) throw new Error(`${path} has no ${name}`);
  return text.split("*").reduce((product, factor) => product * Number(factor.replaceAll("_", "")), 1);
}

test("the pace of the clean-up of sessions is that of the code", () => {
  const housekeeping = (name: string) => constantIn("token-service/sessions/housekeeping.ts", name);
  const inOneRun = housekeeping("MAX_BATCH") * housekeeping("MAX_BATCHES");
  const runs = 15_000_000 / inOneRun;
  const minutes = (runs * constantIn("token-service/main.ts", "CLEAN_UP_INTERVAL_MS")) / 60_000;
  expect(capacity).toContain(`looks at 15 million sessions in ${minutes} minutes`);
});
