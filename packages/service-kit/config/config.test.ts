import { randomBytes } from "node:crypto";
import { chmodSync, mkdtempSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { expect, test } from "vitest";
import { z } from "zod";
import {
  addressSchema,
  assertRuntime,
  booleanSchema,
  ConfigError,
  databaseConfig,
  encryptionKeyFileSchema,
  integerSchema,
  parseConfig,
  privateFileSchema,
  redisConfig,
  redisConfigProblem,
  Secret,
  secretFileSchema,
  splitAddress,
} from "./config.ts";
import { parseRedisUrl } from "./redis-url.ts";

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
  writeFileSync(file, "hunter2-hunter2\n", { mode: 0o600 });
  const config = parseConfig(schema, { LISTEN_ADDRESS: "a:1", PASSWORD_FILE: file });
  expect(config.PASSWORD_FILE?.reveal()).toBe("hunter2-hunter2");
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

test("a secret of any type is returned by reveal()", () => {
  expect(new Secret(7).reveal()).toBe(7);
});

const secrets = z.object({
  PASSWORD_FILE: secretFileSchema.optional(),
  OTHER_PASSWORD_FILE: secretFileSchema.optional(),
  LINK_KEY_FILE: encryptionKeyFileSchema.optional(),
  LINK_KEY_PREVIOUS_FILE: encryptionKeyFileSchema.optional(),
  TLS_KEY_FILE: privateFileSchema.optional(),
});
const folder = mkdtempSync(join(tmpdir(), "gatehouse-secrets-"));

function secretFile(name: string, text: string, mode = 0o600): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  chmodSync(path, mode); // whatever the umask
  return path;
}

function secretProblemsOf(environment: Record<string, string>): string[] {
  try {
    parseConfig(secrets, environment);
    return [];
  } catch (error) {
    return (error as ConfigError).message.split("\n").slice(1);
  }
}

const PASSWORD = "correct-horse-s3cret";

test.each(["400", "600", "440", "640", "700"])("a secret file of mode %s is read", (mode) => {
  const path = secretFile(`mode-${mode}`, PASSWORD, Number.parseInt(mode, 8));
  expect(secretProblemsOf({ PASSWORD_FILE: path, TLS_KEY_FILE: path })).toEqual([]);
});

test.each(["444", "644", "604", "602", "601", "660", "460", "777"])(
  "a secret file of mode %s is refused, by the variable's name and not its content",
  (mode) => {
    const path = secretFile(`mode-${mode}`, PASSWORD, Number.parseInt(mode, 8));
    const refusal = "the file is open to other users: make its mode 0400, or 0440 for a group";
    expect(secretProblemsOf({ PASSWORD_FILE: path, LINK_KEY_FILE: path, TLS_KEY_FILE: path })).toEqual([
      `  PASSWORD_FILE: ${refusal}`,
      `  LINK_KEY_FILE: ${refusal}`,
      `  TLS_KEY_FILE: ${refusal}`,
    ]);
  },
);

test("a link is as open as the file behind it, as Kubernetes mounts a Secret", () => {
  const path = secretFile("behind", PASSWORD, 0o440);
  symlinkSync("behind", join(folder, "link"));
  expect(secretProblemsOf({ PASSWORD_FILE: join(folder, "link") })).toEqual([]);
  chmodSync(path, 0o444);
  expect(secretProblemsOf({ PASSWORD_FILE: join(folder, "link") })).toHaveLength(1);
});

test.each([
  ["", "the file is empty"],
  ["s3cret!", "the secret is shorter than 8 characters"],
  ["changeme", "the secret is an example, not a secret"],
  ["Change-Me", "the secret is an example, not a secret"],
  ["your-password-here".slice(0, 13), "the secret is an example, not a secret"],
  ["insert secret here", "the secret is an example, not a secret"],
  ["Password123", "the secret is an example, not a secret"],
  ["postgres", "the secret is an example, not a secret"],
  ["abcabcabcabc", "the secret is an example, not a secret"],
])("%j is no secret", (text, problem) => {
  expect(secretProblemsOf({ PASSWORD_FILE: secretFile("weak", `${text}\n`) })).toEqual([
    `  PASSWORD_FILE: ${problem}`,
  ]);
});

test("random secrets are taken", () => {
  for (const encoding of ["base64", "base64url", "hex"] as const) {
    const path = secretFile("random", randomBytes(32).toString(encoding));
    expect(secretProblemsOf({ PASSWORD_FILE: path })).toEqual([]);
  }
});

test("one secret for two purposes is refused, whatever kind; a key may be its own predecessor", () => {
  const key = randomBytes(32).toString("base64");
  const files = {
    PASSWORD_FILE: secretFile("one", PASSWORD),
    OTHER_PASSWORD_FILE: secretFile("two", `${PASSWORD}\n`),
    LINK_KEY_FILE: secretFile("key", key),
    LINK_KEY_PREVIOUS_FILE: secretFile("previous", key),
  };
  expect(secretProblemsOf(files)).toEqual(["  OTHER_PASSWORD_FILE: holds the same secret as PASSWORD_FILE"]);
  renameSync(secretFile("three", key), files.OTHER_PASSWORD_FILE);
  expect(secretProblemsOf(files)).toEqual(["  LINK_KEY_FILE: holds the same secret as OTHER_PASSWORD_FILE"]);
});

test.each([
  ["postgres://r@127.0.0.1:5432/d", {}, true],
  ["postgres://r@localhost/d", {}, true],
  ["postgres://r@[::1]:5432/d", {}, true],
  ["postgres://r@10.0.0.5:5432/d", {}, false],
  ["postgres://r@postgres:5432/d", {}, false],
  ["postgres://r@127.0.0.1.example.com/d", {}, false],
  ["postgres://r@postgres:5432/d", { DATABASE_PLAINTEXT: "true" }, true],
  ["postgres://r@postgres:5432/d", { DATABASE_CA_FILE: import.meta.filename }, true],
])("a database on another host is refused without TLS: %s with %j", (url, more, isGood) => {
  const { DATABASE_URL, DATABASE_CA_FILE, DATABASE_PLAINTEXT } = databaseConfig;
  const read = () =>
    parseConfig(z.object({ DATABASE_URL, DATABASE_CA_FILE, DATABASE_PLAINTEXT }), {
      DATABASE_URL: url,
      ...more,
    });
  if (isGood) expect(read).not.toThrow();
  else expect(read).toThrow("DATABASE_URL: names another host");
});

test.each([
  ["redis://127.0.0.1:6379", {}, true],
  ["redis://redis:6379", {}, false],
  ["redis://redis:6379", { REDIS_PLAINTEXT: "true" }, true],
  ["rediss://redis:6379", {}, true],
])("Redis on another host is refused without TLS: %s with %j", (url, more, isGood) => {
  const read = () => parseConfig(z.object(redisConfig), { REDIS_URL: url, ...more });
  if (isGood) expect(read).not.toThrow();
  else expect(read).toThrow("REDIS_URL: names another host");
});

const SENTINELS = "rediss+sentinel://gatehouse@a:26379,b,[::1]:26380/gatehouse";
test.each([
  [SENTINELS, {}, undefined],
  [SENTINELS.replace("rediss", "redis"), { REDIS_PLAINTEXT: "true" }, undefined],
  [SENTINELS.replace("rediss", "redis"), {}, "REDIS_URL: sentinels may name any host"],
  ["redis+sentinel://127.0.0.1:26379/gatehouse", {}, "REDIS_URL: sentinels may name any host"],
  [SENTINELS.replace("@", ":secret@"), {}, "REDIS_URL: put the password into REDIS_PASSWORD_FILE"],
  ["rediss+sentinel://a:26379,b:26379", {}, "REDIS_URL: must be"],
  ["rediss+sentinel://a:26379,b:26379/", {}, "REDIS_URL: must be"],
  ["rediss+sentinel://a:26379,b:26379/two/names", {}, "REDIS_URL: must be"],
  ["rediss+sentinel://a:26379,,b:26379/gatehouse", {}, "REDIS_URL: must be"],
  ["rediss+sentinel://a,a:26379/gatehouse", {}, "REDIS_URL: must be"],
  [`rediss+sentinel://${[..."abcdefghij"].join()}/gatehouse`, {}, "REDIS_URL: must be"],
  ["rediss://a:6379,b:6379", {}, "REDIS_URL: must be"],
  ["sentinel://a:26379/gatehouse", {}, "REDIS_URL: must be"],
])("sentinels are named as %s with %j", (url, more, problem) => {
  const read = () => parseConfig(z.object(redisConfig), { REDIS_URL: url, ...more });
  if (problem === undefined) expect(read).not.toThrow();
  else expect(read).toThrow(problem);
});

test("the address of each sentinel, the user and the name of the primary are read from REDIS_URL", () => {
  expect(parseRedisUrl(SENTINELS)).toEqual({
    username: "gatehouse",
    hasPassword: false,
    isEncrypted: true,
    hosts: [
      { host: "a", port: 26_379 },
      { host: "b", port: 26_379 },
      { host: "::1", port: 26_380 },
    ],
    primaryName: "gatehouse",
  });
  expect(parseRedisUrl("redis://us%3Aer@[::1]/7?db=9")).toMatchObject({
    username: "us:er",
    hosts: [{ host: "::1", port: 6_379 }],
    primaryName: undefined,
  });
});

test("a password for sentinels without sentinels is a mistake", () => {
  const of = (url: string) =>
    redisConfigProblem({
      REDIS_URL: url,
      REDIS_SENTINEL_PASSWORD_FILE: new Secret("a-sentinel-password"),
      REDIS_PLAINTEXT: false,
    });
  expect(of("rediss://a:6379")).toContain("must name sentinels");
  expect(of(SENTINELS)).toBeUndefined();
});

test.each(["20.20.2", "22.21.0", "24.8.0"])("no process runs on Node.js %s", (version) => {
  expect(() => assertRuntime(version, {})).toThrow(/Node\.js 24\.9 or newer is needed/);
});

test.each(["24.9.0", "24.21.0", "26.0.0"])("a process runs on Node.js %s", (version) => {
  expect(() => assertRuntime(version, {})).not.toThrow();
});

test("no process runs without verifying its peers", () => {
  const environment = (value: string) => ({ NODE_TLS_REJECT_UNAUTHORIZED: value });
  expect(() => assertRuntime("24.21.0", environment("0"))).toThrow(/NODE_TLS_REJECT_UNAUTHORIZED/);
  expect(() => assertRuntime("24.21.0", environment("1"))).not.toThrow();
});
