import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { encodeHeader, HEADER_BYTES } from "#breach-list/list-format.ts";
import { ConfigError, parseConfig } from "#kit/config/config.ts";
import { assertAccessFits, configSchema, hashConcurrency } from "./config.ts";

const folder = mkdtempSync(join(tmpdir(), "gatehouse-identity-config-"));
afterAll(() => rmSync(folder, { recursive: true }));

const file = join(folder, "secret");
writeFileSync(file, "a good password\n", { mode: 0o600 });
const otherFile = join(folder, "other-secret");
writeFileSync(otherFile, "another good password\n", { mode: 0o600 });

function newKeyFile(name: string): string {
  const path = join(folder, name);
  writeFileSync(path, `${randomBytes(32).toString("base64")}\n`, { mode: 0o600 });
  return path;
}

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
  AUDIT_SERVICE_ADDRESS: "127.0.0.1:50053",
  PUBLIC_ORIGIN: "https://gatehouse.example",
  LINK_KEY_FILE: newKeyFile("link-key"),
  DEVICE_KEY_FILE: newKeyFile("device-key"),
  MFA_ENCRYPTION_KEY_FILE: newKeyFile("mfa-key"),
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
  ["AUDIT_SERVICE_ADDRESS", "audit-service"],
  ["MFA_REQUIRED_ROLES", "ADMIN,SUPPORTER"],
  ["MFA_REQUIRED_ROLES", "admin"],
  ["MFA_REQUIRED_ROLES", "ADMIN,"],
  ["SMTP_REQUIRE_TLS", "yes"],
  ["SMTP_CA_FILE", "/nowhere"],
  ["MAIL_TEMPLATES_DIR", "/nowhere"],
])("%s=%s is refused", (key, value) => {
  expect(problemsOf({ [key]: value })).toContain(key);
});

test.each([
  [{ BOOTSTRAP_ADMIN_EMAIL: "admin@example.com" }, "BOOTSTRAP_ADMIN_PASSWORD_FILE"],
  [{ BOOTSTRAP_ADMIN_PASSWORD_FILE: otherFile }, "BOOTSTRAP_ADMIN_EMAIL"],
  [{ BOOTSTRAP_ADMIN_EMAIL: "admin", BOOTSTRAP_ADMIN_PASSWORD_FILE: otherFile }, "BOOTSTRAP_ADMIN_EMAIL"],
])("a first administrator that is half described is refused: %j", (change, key) => {
  expect(problemsOf(change)).toContain(key);
});

test("the first administrator's address is canonical and the password is no text to print", () => {
  const config = parseConfig(configSchema, {
    ...MINIMAL,
    BOOTSTRAP_ADMIN_EMAIL: "Admin@Example.COM",
    BOOTSTRAP_ADMIN_PASSWORD_FILE: otherFile,
  });
  expect(config.BOOTSTRAP_ADMIN_EMAIL).toBe("admin@example.com");
  expect(config.BOOTSTRAP_ADMIN_PASSWORD_FILE?.reveal()).toBe("another good password");
  expect(JSON.stringify(config)).not.toContain("a good password");
});

test("a wrong access file prevents the start, with every problem", () => {
  const file = join(folder, "access.yaml");
  writeFileSync(file, "roles: { ADMIN: [], USER: [a:b] }\ndefaultRole: GUEST");
  const problems = problemsOf({ ACCESS_FILE: file });
  for (const key of ["roles.ADMIN", "roles.USER.0", "defaultRole"]) expect(problems).toContain(key);
  expect(problemsOf({ ACCESS_FILE: join(folder, "absent.yaml") })).toContain("ACCESS_FILE");
});

test("the roles that need a second factor are a list, and may be none", () => {
  const rolesOf = (MFA_REQUIRED_ROLES: string) =>
    parseConfig(configSchema, { ...MINIMAL, MFA_REQUIRED_ROLES }).MFA_REQUIRED_ROLES;
  expect(() => rolesOf("ADMIN,ADMN")).toThrow("MFA_REQUIRED_ROLES: must be a comma list of roles");
  expect(rolesOf("AUDITOR, ADMIN")).toEqual(["AUDITOR", "ADMIN"]);
  expect(parseConfig(configSchema, MINIMAL).MFA_REQUIRED_ROLES).toBeUndefined();
});

test("a changed access file has the roles that need a second factor, as one at the start", () => {
  const config = parseConfig(configSchema, { ...MINIMAL, MFA_REQUIRED_ROLES: "ADMIN,AUDITOR" });
  const { roles } = config.ACCESS_FILE.access;
  const { AUDITOR: _, ...others } = roles;
  expect(() => assertAccessFits(config, { roles })).not.toThrow();
  expect(() => assertAccessFits(config, { roles: others })).toThrow(ConfigError);
  expect(() => assertAccessFits({ MFA_REQUIRED_ROLES: undefined }, { roles: others })).not.toThrow();
});

test("a registration without disclosure needs a login without disclosure", () => {
  expect(problemsOf({ REGISTRATION_DISCLOSES: "false" })).toContain("LOGIN_REQUIRES_VERIFIED_EMAIL=true");
  expect(problemsOf({ REGISTRATION_DISCLOSES: "false", LOGIN_REQUIRES_VERIFIED_EMAIL: "false" })).not.toBe(
    "",
  );
  expect(problemsOf({ REGISTRATION_DISCLOSES: "false", LOGIN_REQUIRES_VERIFIED_EMAIL: "true" })).toBe("");
  expect(problemsOf({ LOGIN_REQUIRES_VERIFIED_EMAIL: "true" })).toBe("");
});

const MAIL = { SMTP_URL: "smtp://mail.example.com", MAIL_FROM: "Gate House <No-Reply@Example.com>" };

test.each([
  ["smtp://127.0.0.1:1025", { host: "127.0.0.1", port: 1025, isTlsFromStart: false, user: undefined }],
  [
    "smtp://mail.example.com",
    { host: "mail.example.com", port: 587, isTlsFromStart: false, user: undefined },
  ],
  [
    "smtps://mail.example.com/",
    { host: "mail.example.com", port: 465, isTlsFromStart: true, user: undefined },
  ],
  ["smtps://[::1]:2465", { host: "::1", port: 2465, isTlsFromStart: true, user: undefined }],
])("mail goes to %s", (url, server) => {
  expect(parseConfig(configSchema, { ...MINIMAL, ...MAIL, SMTP_URL: url }).SMTP_URL).toEqual(server);
});

test("the user of the mail server is in its URL, the password in a file", () => {
  const config = parseConfig(configSchema, {
    ...MINIMAL,
    SMTP_URL: "smtp://no-reply%40example.com@mail.example.com",
    SMTP_PASSWORD_FILE: otherFile,
    MAIL_FROM: "no-reply@example.com",
  });
  expect(config.SMTP_URL?.user).toBe("no-reply@example.com");
  expect(config.SMTP_PASSWORD_FILE?.reveal()).toBe("another good password");
  expect(JSON.stringify(config)).not.toContain("a good password");
});

test.each([
  ["Gate House <No-Reply@Example.com>", { name: "Gate House", address: "no-reply@example.com" }],
  ["<no-reply@example.com>", { name: "", address: "no-reply@example.com" }],
  ["no-reply@example.com", { name: "", address: "no-reply@example.com" }],
])("mail is from %j", (from, address) => {
  expect(parseConfig(configSchema, { ...MINIMAL, ...MAIL, MAIL_FROM: from }).MAIL_FROM).toEqual(address);
});

test.each([
  [{ SMTP_URL: "mail.example.com:25" }, "SMTP_URL: must be smtp://"],
  [{ SMTP_URL: "http://mail.example.com" }, "SMTP_URL: must be smtp://"],
  [{ SMTP_URL: "smtp://user:pass@mail.example.com" }, "SMTP_URL: put the password into SMTP_PASSWORD_FILE"],
  [{ SMTP_URL: "smtp://mail.example.com?ignoreTLS=true" }, "SMTP_URL: must end after the port"],
  [{ SMTP_URL: "smtp://mail.example.com/x" }, "SMTP_URL: must end after the port"],
  [{ SMTP_URL: "smtp://%zz@mail.example.com" }, "SMTP_URL: has a user that is not well-formed"],
  [{ SMTP_URL: "smtp://user@mail.example.com" }, "SMTP_PASSWORD_FILE: is required"],
  [{ SMTP_PASSWORD_FILE: otherFile }, "SMTP_PASSWORD_FILE: needs a user"],
  [
    { SMTP_URL: "smtp://user@mail.example.com", SMTP_PASSWORD_FILE: otherFile, SMTP_REQUIRE_TLS: "false" },
    "SMTP_REQUIRE_TLS: cannot be false with a user",
  ],
  [{ MAIL_FROM: "" }, "MAIL_FROM: is required beside SMTP_URL"],
  [{ MAIL_FROM: "Gatehouse" }, "MAIL_FROM: must be an address"],
  [{ MAIL_FROM: "a@example.com, b@example.com" }, "MAIL_FROM: must be an address"],
  [{ MAIL_FROM: "Gate\r\nBcc: eve@evil.example <a@example.com>" }, "MAIL_FROM: must be an address"],
])("mail settings that cannot work are refused: %j", (change, problem) => {
  expect(problemsOf({ ...MAIL, ...change })).toContain(problem);
});

test("of the operator's logo, mails take a whole PNG, and leave SVG to the pages", () => {
  const logo = (content: string) => {
    const path = join(folder, "logo");
    writeFileSync(path, content, "latin1");
    return { BRAND_LOGO_FILE: path };
  };
  const png = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x40\0\0\0\x20.........\0\0\0\0IEND\xaeB`\x82";
  expect(parseConfig(configSchema, { ...MINIMAL, ...logo(png) }).BRAND_LOGO_FILE?.length).toBe(png.length);
  expect(parseConfig(configSchema, { ...MINIMAL, ...logo("<svg/>") }).BRAND_LOGO_FILE).toBeUndefined();
  expect(problemsOf(logo(png.slice(0, -1)))).toContain("BRAND_LOGO_FILE: is no whole PNG");
});

test("no mail server is no problem, and mail templates are checked all the same", () => {
  expect(parseConfig(configSchema, MINIMAL).SMTP_URL).toBeUndefined();
  const templates = join(folder, "templates");
  mkdirSync(join(templates, "fr"), { recursive: true });
  expect(problemsOf({ MAIL_TEMPLATES_DIR: templates })).toBe("");
  writeFileSync(join(templates, "layout.html"), "{{content}}{{password}}");
  writeFileSync(join(templates, "fr/footer.txt"), "{{ip}}");
  expect(problemsOf({ MAIL_TEMPLATES_DIR: templates })).toBe(
    "The configuration cannot be used:\n" +
      "  MAIL_TEMPLATES_DIR: fr/footer.txt has the unknown placeholder {{ip}}\n" +
      "  MAIL_TEMPLATES_DIR: layout.html has the unknown placeholder {{password}}",
  );
  expect(problemsOf({ MAIL_DEFAULT_LANGUAGE: "de-CH" })).toBe("");
  expect(problemsOf({ MAIL_DEFAULT_LANGUAGE: "pl" })).toContain(
    "MAIL_DEFAULT_LANGUAGE: has no folder of mails",
  );
  expect(problemsOf({ MAIL_DEFAULT_LANGUAGE: "fr_FR" })).toContain("must be a language tag");
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

test.each([
  "gatehouse.example",
  "ftp://gatehouse.example",
  "https://gatehouse.example/",
  "https://a@gatehouse.example",
])("links do not lead to %s", (origin) =>
  expect(problemsOf({ PUBLIC_ORIGIN: origin })).toContain("PUBLIC_ORIGIN"),
);

test("links lead to an origin with or without a port, and their key has 32 bytes", () => {
  for (const origin of ["https://gatehouse.example", "http://127.0.0.1:8080"]) {
    expect(problemsOf({ PUBLIC_ORIGIN: origin })).toBe("");
  }
  expect(problemsOf({ LINK_KEY_FILE: file })).toContain("LINK_KEY_FILE: the file must hold 32 random bytes");
});

test.each(["http://breaches.example/range/", "http://10.0.0.1/range/"])(
  "%s is no place to ask for breaches",
  (url) => {
    expect(() => parseConfig(configSchema, { ...MINIMAL, BREACH_LOOKUP_URL: url })).toThrow(
      /BREACH_LOOKUP_URL/,
    );
  },
);

test.each([
  "https://breaches.example/range/",
  "http://127.0.0.1:9/",
  "http://[::1]:9/",
  "http://localhost:9/",
])("breaches are asked for at %s", (url) => {
  expect(parseConfig(configSchema, { ...MINIMAL, BREACH_LOOKUP_URL: url }).BREACH_LOOKUP_URL).toBe(url);
});

test("a breach list is a file that says what it is, and its problem is named", () => {
  const list = join(folder, "breached.list");
  expect(problemsOf({ BREACH_LIST_FILE: list })).toContain(
    `BREACH_LIST_FILE: ${list} cannot be read (ENOENT)`,
  );
  writeFileSync(list, "x".repeat(200));
  expect(problemsOf({ BREACH_LIST_FILE: list })).toContain(
    `BREACH_LIST_FILE: ${list} cannot be used: it is no breach list`,
  );
  writeFileSync(list, encodedList());
  expect(problemsOf({ BREACH_LIST_FILE: list })).toBe("");
});

/** The header of a list with one entry, and as many bytes as it says. The checksum is not verified here. */
function encodedList(): Buffer {
  const header = { entries: 1, bucketBits: 0, largestBucket: 1, builtAt: new Date(), label: "" };
  return Buffer.concat([encodeHeader(header)], HEADER_BYTES + 12);
}

test("logins without a proof are for one machine alone", () => {
  const LOCAL = {
    TEST_LOGINS: "true",
    LISTEN_ADDRESS: "127.0.0.1:0",
    PUBLIC_ORIGIN: "http://localhost:8080",
  };
  expect(problemsOf(LOCAL)).toBe("");
  expect(parseConfig(configSchema, MINIMAL).TEST_LOGINS).toBe(false);
  for (const change of [
    { LISTEN_ADDRESS: "0.0.0.0:50051" },
    { LISTEN_ADDRESS: "[::]:50051" },
    { LISTEN_ADDRESS: "10.0.0.7:50051" },
    { PUBLIC_ORIGIN: "https://gatehouse.example" },
    { PUBLIC_ORIGIN: "http://localhost.example" },
    { PAGES_ORIGIN: "https://login.example" },
  ])
    expect(problemsOf({ ...LOCAL, ...change }), JSON.stringify(change)).toContain(
      "TEST_LOGINS: is for tests",
    );
});
