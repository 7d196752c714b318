import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { ConfigError, parseConfig } from "../service-kit/config.ts";
import { configSchema, hashConcurrency } from "./config.ts";

const folder = mkdtempSync(join(tmpdir(), "gatehouse-identity-config-"));
afterAll(() => rmSync(folder, { recursive: true }));

const file = join(folder, "secret");
writeFileSync(file, "a good password\n");

const MINIMAL = {
  OPERATIONS_ADDRESS: "127.0.0.1:0",
  LISTEN_ADDRESS: "127.0.0.1:0",
  HEALTH_ADDRESS: "127.0.0.1:0",
  TLS_CERT_FILE: file,
  TLS_KEY_FILE: file,
  TLS_CA_FILE: file,
  DATABASE_URL: "postgres://gatehouse_identity@127.0.0.1:5432/identity",
  DATABASE_PASSWORD_FILE: file,
  TOKEN_SERVICE_ADDRESS: "127.0.0.1:50052",
};

function problemsOf(change: Record<string, string>): string {
  try {
    parseConfig(configSchema, { ...MINIMAL, ...change });
    return "";
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
}

test("the defaults are the floor", () => {
  expect(parseConfig(configSchema, MINIMAL)).toMatchObject({
    ARGON2_MEMORY_KIB: 19_456,
    ARGON2_ITERATIONS: 2,
    ARGON2_PARALLELISM: 1,
    HASH_QUEUE_MAX: 32,
    HASH_QUEUE_WAIT_MS: 1_000,
    PASSWORD_MIN_LENGTH: 8,
  });
});

test.each([
  ["ARGON2_MEMORY_KIB", "19455"],
  ["ARGON2_MEMORY_KIB", "131073"],
  ["ARGON2_ITERATIONS", "1"],
  ["ARGON2_ITERATIONS", "11"],
  ["ARGON2_PARALLELISM", "0"],
  ["ARGON2_PARALLELISM", "5"],
  ["HASH_CONCURRENCY", "0"],
  ["HASH_CONCURRENCY", "3"],
  ["HASH_QUEUE_WAIT_MS", "1001"],
  ["PASSWORD_MIN_LENGTH", "7"],
  ["PASSWORD_MIN_LENGTH", "65"],
  ["UV_THREADPOOL_SIZE", "2"],
  ["TOKEN_SERVICE_ADDRESS", "token-service"],
])("%s=%s is refused", (key, value) => {
  expect(problemsOf({ [key]: value })).toContain(key);
});

test.each([
  [{ BOOTSTRAP_ADMIN_EMAIL: "admin@example.com" }, "BOOTSTRAP_ADMIN_PASSWORD_FILE"],
  [{ BOOTSTRAP_ADMIN_PASSWORD_FILE: file }, "BOOTSTRAP_ADMIN_EMAIL"],
  [{ BOOTSTRAP_ADMIN_EMAIL: "admin", BOOTSTRAP_ADMIN_PASSWORD_FILE: file }, "BOOTSTRAP_ADMIN_EMAIL"],
])("a first administrator that is half described is refused: %j", (change, key) => {
  expect(problemsOf(change)).toContain(key);
});

test("the first administrator's address is canonical and the password is no text to print", () => {
  const config = parseConfig(configSchema, {
    ...MINIMAL,
    BOOTSTRAP_ADMIN_EMAIL: "Admin@Example.COM",
    BOOTSTRAP_ADMIN_PASSWORD_FILE: file,
  });
  expect(config.BOOTSTRAP_ADMIN_EMAIL).toBe("admin@example.com");
  expect(config.BOOTSTRAP_ADMIN_PASSWORD_FILE?.reveal()).toBe("a good password");
  expect(JSON.stringify(config)).not.toContain("a good password");
});

test.each([
  { cores: 1, threads: 4, given: undefined, expected: 1 },
  { cores: 2, threads: 4, given: undefined, expected: 2 },
  { cores: 64, threads: 4, given: undefined, expected: 2 },
  { cores: 64, threads: 3, given: undefined, expected: 1 },
  { cores: 8, threads: 16, given: undefined, expected: 8 },
  { cores: 8, threads: 16, given: 3, expected: 3 },
])("$cores cores, $threads threads, $given given: $expected hashes at once", (row) => {
  const config = { HASH_CONCURRENCY: row.given, UV_THREADPOOL_SIZE: row.threads };
  expect(hashConcurrency(config, row.cores)).toBe(row.expected);
});
