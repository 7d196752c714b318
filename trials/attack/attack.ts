import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { ACCOUNT_CASES } from "./account-cases.ts";
import { CLIENT_CASES } from "./client-cases.ts";
import { EDGE_CASES } from "./edge-cases.ts";
import { RESOURCE_CASES } from "./resource-cases.ts";
import { TAKEOVER_CASES } from "./takeover-cases.ts";
import { type AttackCase, assertLoopback, call, NotPossible, type Target } from "./target.ts";

/**
 * `npm run attack [part of a name…]`: tries attacks that once succeeded against a running local system, beside `npm start`,
 * one line each. Ends with 1 if one of them succeeds again. It makes accounts and mails; use a home that you can throw away.
 */

const HOME = process.env.GATEHOUSE_HOME ?? resolve(import.meta.dirname, "..", "..", ".gatehouse");

function passwordOf(home: string): string | undefined {
  try {
    return readFileSync(join(home, "secrets", "admin-password"), "utf8").trim();
  } catch {
    return undefined;
  }
}

async function outcomeOf({ run }: AttackCase, target: Target): Promise<{ word: string; why: string }> {
  try {
    await run(target);
    return { word: "held", why: "" };
  } catch (error) {
    const why = error instanceof Error ? (error.message.split("\n")[0] ?? "") : String(error);
    return { word: error instanceof NotPossible ? "skipped" : "BROKEN", why: `: ${why}` };
  }
}

async function main(parts: readonly string[]): Promise<void> {
  const target: Target = {
    url: new URL(process.env.GATEHOUSE_URL ?? "http://localhost:8080"),
    mailbox: new URL(process.env.MAILBOX_URL ?? "http://localhost:1080"),
    adminPassword: passwordOf(HOME),
  };
  assertLoopback(target.url);
  assertLoopback(target.mailbox);
  await call(target, "GET", "/auth/providers").catch((error: unknown) => {
    throw new Error(`nothing answers at ${target.url.origin}: start it with npm start`, { cause: error });
  });
  const cases = [
    ...TAKEOVER_CASES,
    ...ACCOUNT_CASES,
    ...CLIENT_CASES,
    ...EDGE_CASES,
    ...RESOURCE_CASES,
  ].filter(({ name }) => parts.length === 0 || parts.some((part) => name.includes(part)));
  const words: string[] = [];
  for (const attack of cases) {
    const { word, why } = await outcomeOf(attack, target);
    words.push(word);
    process.stdout.write(`${word.padEnd(8)}${attack.name}${why}\n`);
  }
  const count = (wanted: string) => words.filter((word) => word === wanted).length;
  process.stdout.write(`${count("held")} held, ${count("BROKEN")} broken, ${count("skipped")} skipped\n`);
  if (count("BROKEN") > 0) process.exitCode = 1;
}

await main(process.argv.slice(2));
