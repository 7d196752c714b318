import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { expect, test } from "vitest";
import { z } from "zod";
import {
  addressSchema,
  booleanSchema,
  ConfigError,
  integerSchema,
  parseConfig,
  Secret,
  secretFileSchema,
  splitAddress,
} from "./config.ts";

const schema = z.object({
  LISTEN_ADDRESS: addressSchema,
  LIMIT: integerSchema(1, 10).default(5),
  STRICT: booleanSchema.default(false),
  PASSWORD_FILE: secretFileSchema.optional(),
});

function problemsOf(environment: Record<string, string>): string {
  try {
    parseConfig(schema, environment);
    return "";
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as Error).message;
  }
}

test("a whole configuration is read, with its defaults", () => {
  expect(parseConfig(schema, { LISTEN_ADDRESS: "127.0.0.1:80", STRICT: "true", OTHER: "ignored" })).toEqual({
    LISTEN_ADDRESS: "127.0.0.1:80",
    LIMIT: 5,
    STRICT: true,
  });
});

test("every problem is reported at once, by the variable's name and without its value", () => {
  const problems = problemsOf({
    LIMIT: "eleven-s3cret",
    STRICT: "yes-s3cret",
    PASSWORD_FILE: "/does/not/exist",
  });
  expect(problems).toMatch(/LISTEN_ADDRESS: is required/);
  expect(problems).toMatch(/LIMIT: must be a whole number/);
  expect(problems).toMatch(/STRICT: must be true or false/);
  expect(problems).toMatch(/PASSWORD_FILE: the file cannot be read \(ENOENT\)/);
  expect(problems).not.toMatch(/s3cret/);
});

test.each(["0", "11", "1.5", "1e1", " 3", "0x3"])("%j is not a whole number from 1 to 10", (LIMIT) => {
  expect(problemsOf({ LISTEN_ADDRESS: "a:1", LIMIT })).toMatch(/LIMIT/);
});

test("an empty variable counts as not set", () => {
  expect(problemsOf({ LISTEN_ADDRESS: "" })).toMatch(/LISTEN_ADDRESS: is required/);
});

test("a secret is its file's text, is never empty, and is not printed", () => {
  const file = join(mkdtempSync(join(tmpdir(), "gatehouse-config-")), "secret");
  writeFileSync(file, "hunter2\n");
  const config = parseConfig(schema, { LISTEN_ADDRESS: "a:1", PASSWORD_FILE: file });
  expect(config.PASSWORD_FILE?.reveal()).toBe("hunter2");
  expect(`${config.PASSWORD_FILE} ${JSON.stringify(config)} ${inspect(config)}`).not.toMatch(/hunter2/);
  writeFileSync(file, "\n");
  expect(problemsOf({ LISTEN_ADDRESS: "a:1", PASSWORD_FILE: file })).toMatch(
    /PASSWORD_FILE: the file is empty/,
  );
});

test.each([
  ["127.0.0.1:80", { host: "127.0.0.1", port: 80 }],
  ["[::1]:8080", { host: "::1", port: 8080 }],
  ["token-service:50052", { host: "token-service", port: 50052 }],
])("%s is an address", (text, expected) => {
  expect(splitAddress(addressSchema.parse(text))).toEqual(expected);
});

test.each(["localhost", ":80", "a:70000", "a b:1", "::1:80"])("%j is no address", (text) => {
  expect(addressSchema.safeParse(text).success).toBe(false);
});

test("a secret of any type can be revealed by whoever asks for it by name", () => {
  expect(new Secret(7).reveal()).toBe(7);
});
