import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  type ClassLimits,
  defaultLimitClasses,
  limitClassesSchema,
} from "../../gateway/limits/limit-class.ts";
import { parseRoutesFile } from "../../routes-file/routes-file.ts";

const DOCS = join(import.meta.dirname, "..", "..", "docs");
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
