import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { parseAst } from "vitest/node";
import { z } from "zod";
import { hasTools } from "../support/house/tools.ts";

// A client chooses the text that most expressions read. One that needs more than linear time lets a few kilobytes of the
// right text hold the only thread of a process. All expressions are held to it, also those that read other text today.

const ROOT = resolve(import.meta.dirname, "..", "..");
const FOLDERS = [
  "gateway",
  "identity-service",
  "token-service",
  "audit-service",
  "event-service",
  "packages",
  "clients/examples",
];
interface Expression {
  where: string;
  source: string;
  flags: string;
}

function sourceFiles(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !/\.(?:test|fixture|contract)\.ts$|node_modules/.test(name))
    .map((name) => join(folder, name));
}

/** Every literal `/…/` of a file. */
function expressionsOf(path: string): Expression[] {
  const found: Expression[] = [];
  const visit = (node: unknown): void => {
    if (Array.isArray(node)) node.forEach(visit);
    else if (typeof node === "object" && node !== null) {
      const { regex } = node as { regex?: { pattern: string; flags: string } };
      if (regex !== undefined) found.push({ where: path, source: regex.pattern, flags: regex.flags });
      else Object.values(node).forEach(visit);
    }
  };
  visit(parseAst(readFileSync(join(ROOT, path), "utf8"), { lang: "ts" }).body);
  return found;
}

/** What the validation library runs over fields of clients. */
const VALIDATION: Expression[] = Object.entries({
  uuid: z.regexes.uuid(),
  datetime: z.regexes.datetime({ offset: true }),
}).map(([name, { source, flags }]) => ({ where: `z.regexes.${name}`, source, flags }));
const EXPRESSIONS = [...FOLDERS.flatMap(sourceFiles).flatMap(expressionsOf), ...VALIDATION];

describe.skipIf(!hasTools)(
  "regular expressions (skipped where tools/ is not installed)",
  { tags: "exhaustive" },
  () => {
    test("the checker knows one that is not linear", async () => {
      const { complexityOf } = await import("#tools/expression-complexity.ts");
      expect(complexityOf({ source: "eyJ[\\w-]{5,}\\.[\\w-]*\\.[\\w-]*", flags: "g" })).toBe(
        "2nd degree polynomial",
      );
    });

    test("every expression is linear in the text it reads", { timeout: 600_000 }, async () => {
      const { complexityOf } = await import("#tools/expression-complexity.ts");
      expect(EXPRESSIONS.length).toBeGreaterThan(80);
      const seen = new Map<string, string>();
      const slow = EXPRESSIONS.flatMap((expression) => {
        const key = `/${expression.source}/${expression.flags}`;
        const complexity = seen.get(key) ?? complexityOf(expression);
        seen.set(key, complexity);
        return complexity === "linear" ? [] : [`${expression.where}: ${key} is ${complexity}`];
      });
      expect(slow).toEqual([]);
    });
  },
);
