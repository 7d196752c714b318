import { readFileSync } from "node:fs";
import { BlockList } from "node:net";
import { relative, resolve, sep } from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";
import { configSchema as auditConfig } from "#audit-service/config.ts";
import { configSchema as paymentsConfig } from "#clients/examples/payments-service/config.ts";
import { drainConfigSchema } from "#deploy/image/drain-config.ts";
import { schemaConfigSchema } from "#deploy/image/schema-config.ts";
import { settingsSchema } from "#deploy/local/settings.ts";
import { configSchema as eventConfig } from "#event-service/config.ts";
import { configSchema as gatewayConfig } from "#gateway/config.ts";
import { configSchema as identityConfig } from "#identity-service/config.ts";
import { configSchema as tokenConfig } from "#token-service/config.ts";

const SCHEMAS: Record<string, z.ZodObject> = {
  gateway: gatewayConfig,
  "identity-service": identityConfig,
  "token-service": tokenConfig,
  "audit-service": auditConfig,
  "event-service": eventConfig,
  "payments-service": paymentsConfig,
  "migrate, await-schema": schemaConfigSchema,
  "drain-spool": drainConfigSchema,
  "npm start": settingsSchema,
};

const ROOT = resolve(import.meta.dirname, "..", "..");
const page = readFileSync(resolve(ROOT, "docs", "config.md"), "utf8");
interface Section {
  title: string;
  /** The processes that read the section's variables: its own, or those that a shared section names. */
  readers: string[];
  isShared: boolean;
  rows: string[];
}

const sections = page
  .split(/^## /m)
  .slice(1)
  .map((part): Section => {
    const [title = "", ...lines] = part.split("\n");
    const [, shared] = /^Read by ((?:`[\w-]+`(?:, )?)+)\./m.exec(part) ?? [];
    const readers = shared === undefined ? title : shared.replaceAll("`", "");
    return {
      title,
      readers: readers.split(", "),
      isShared: shared !== undefined,
      rows: lines.filter(isRow),
    };
  });

/** Every line of a table but its head: a row that is misspelt is compared, not overlooked. */
function isRow(line: string): boolean {
  return line.startsWith("|") && !/^\| (?:Variable|-{3,}) *\|/.test(line);
}

/** The first two columns of a row, as text; the third must say something. */
function documented(line: string): [string, string] {
  const [, variable, value] = /^\| `([A-Z0-9_]+)` *\| ([^|]*[^| ]) *\| [^|]*[^| ] *\|$/.exec(line) ?? [];
  if (variable === undefined || value === undefined) throw new Error(`not a row of three columns: ${line}`);
  return [variable, value];
}

/** What a variable counts as when it is not set, as the page writes it. */
function defaultOf(schema: z.core.$ZodType): string {
  if (schema instanceof z.ZodDefault) return written(schema.def.defaultValue);
  if (schema instanceof z.ZodPipe) return defaultOf(schema.def.in);
  return z.safeParse(schema, undefined).success ? "unset" : "required";
}

function written(value: unknown): string {
  if (value instanceof BlockList && value.rules.length === 0) return "none";
  if (typeof value === "string" && value.startsWith(ROOT + sep)) return `\`${relative(ROOT, value)}\``;
  if (Array.isArray(value)) return `\`${value.join(",")}\``;
  if (["string", "number", "boolean"].includes(typeof value)) return `\`${value}\``;
  throw new Error(`the page has no form for a default like ${String(value)}`);
}

test("docs/config.md has a section for every process, and shared sections for those only", () => {
  const own = sections.filter(({ isShared }) => !isShared);
  expect(own.map(({ title }) => title)).toEqual(Object.keys(SCHEMAS));
  const processes = own.flatMap(({ readers }) => readers);
  const unknown = sections.flatMap(({ readers }) => readers).filter((name) => !processes.includes(name));
  expect(unknown).toEqual([]);
});

const processes = Object.entries(SCHEMAS).flatMap(([title, schema]) =>
  title.split(", ").map((name) => [name, schema] as const),
);

test.each(processes)("docs/config.md lists what %s reads, and defaults", (name, schema) => {
  const rows = sections
    .filter(({ readers }) => readers.includes(name))
    .flatMap((section) => section.rows.map(documented));
  const expected = Object.entries(schema.shape).map(([key, value]) => [key, defaultOf(value)]);
  // Sorted lists, not maps: a variable that is listed twice must not pass.
  expect(rows.sort()).toEqual(expected.sort());
});
