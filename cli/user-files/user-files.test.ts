import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { auth0User } from "./auth0-user.ts";
import { keycloakUser } from "./keycloak-user.ts";
import { readUsers, type UserFile, type UserRow } from "./open-user-file.ts";
import { plainUser } from "./plain-user.ts";
import { supabaseUser } from "./supabase-user.ts";
import { NO_USER } from "./user-record.ts";

const BCRYPT = "$2b$10$.qHPp/srqo1NAAAAAvlkmOdqAbH2Rg0qPv2Txj3ZwXfjJnewSjc4m";
const KEY = Buffer.from("12345678901234567890");
/** Of the same bytes. */
const KEY_TEXT = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";
const MAPPING = {
  roles: new Map([
    ["admin", "ADMIN"],
    ["auditor", "AUDITOR"],
  ]),
  providers: new Map([["google-oauth2", "google"]]),
};
const NO_HASHES = new Map<string, string>();

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "gatehouse-user-files-"));
});
afterAll(() => rm(folder, { recursive: true }));

async function read(
  name: string,
  content: string | Buffer,
  file: Omit<UserFile, "path" | "roles" | "providers">,
) {
  const path = join(folder, name);
  await writeFile(path, content);
  const rows: UserRow[] = [];
  for await (const row of readUsers({ ...MAPPING, path, ...file })) rows.push(row);
  return rows;
}

const otp = (secret: string, data: object) => ({
  type: "otp",
  secretData: JSON.stringify({ value: secret }),
  credentialData: JSON.stringify({ subType: "totp", digits: 6, period: 30, algorithm: "HmacSHA1", ...data }),
});
const OLD_TOTP = {
  type: "totp",
  hashedSaltedValue: "12345678901234567890",
  digits: 6,
  period: 30,
  algorithm: "HmacSHA1",
  counter: 0,
};
const keycloakWith = (...credentials: object[]) => keycloakUser({ id: "1", credentials }, MAPPING);

test("what counts as read of a file differs little from its users that were taken, and is all of it in the end", async () => {
  const users = Array.from({ length: 40_000 }, (_, id) => ({ id: `${id}`, email: `user-${id}@example.com` }));
  const lines = users.map((user) => `${JSON.stringify(user)}\n`).join("");
  const csv = ["id,email", ...users.map(({ id, email }) => `${id},${email}`), ""].join("\n");
  const files: readonly [string, string, UserFile["source"]][] = [
    ["lines.ndjson", lines, "ndjson"],
    ["array.json", JSON.stringify(users), "ndjson"],
    ["rows.csv", csv, "supabase"],
    ["realm.json", JSON.stringify({ realm: "shop", users }), "keycloak"],
  ];
  for (const [name, content, source] of files) {
    const path = join(folder, name);
    await writeFile(path, content);
    let bytes = 0;
    let taken = 0;
    let difference = 0;
    for await (const _user of readUsers({ ...MAPPING, path, source }, (more) => (bytes += more))) {
      taken += 1;
      difference = Math.max(difference, Math.abs(bytes - (content.length * taken) / users.length));
    }
    expect(difference).toBeLessThan(100_000);
    expect([name, taken, bytes]).toEqual([name, users.length, content.length]);
  }
});

test("a Keycloak OTP is the text itself, or what it says in Base32", () => {
  const plain = keycloakWith(otp("12345678901234567890", {}));
  expect(plain).toMatchObject({ user: { totpSecret: KEY } });
  const encoded = keycloakWith(otp(KEY_TEXT, { secretEncoding: "BASE32" }));
  expect("user" in encoded && Buffer.from(encoded.user.totpSecret)).toEqual(KEY);
});

test.each([
  ["an OTP of 8 digits", [otp("x", { digits: 8 })], "totp_unsupported"],
  ["an OTP of SHA-256", [otp("x", { algorithm: "HmacSHA256" })], "totp_unsupported"],
  ["an OTP of 60 seconds", [otp("x", { period: 60 })], "totp_unsupported"],
  ["a counter", [otp("x", { subType: "hotp" })], "totp_unsupported"],
  ["two devices", [otp("x", {}), otp("y", {})], "several_totp"],
  ["a security key as second factor", [{ type: "webauthn" }], "second_factor_unsupported"],
  ["a credential of an extension", [{ type: "sms-otp" }], "second_factor_unsupported"],
  [
    "an old password without its algorithm",
    [{ type: "password", hashedSaltedValue: "x", salt: "x", hashIterations: 1 }],
    "hash_format_unknown",
  ],
  ["a password in plain text", [{ type: "password", value: "Correct-Horse-42" }], "password_in_plain_text"],
  [
    "a password in plain text beside a hash",
    [{ type: "password", value: "Correct-Horse-42", secretData: "{}", credentialData: "{}" }],
    "password_in_plain_text",
  ],
  ["an OTP without a key", [otp("", {})], "totp_unsupported"],
  ["an OTP whose key is null", [otp("null", {})], "totp_unsupported"],
  ["an old OTP of 8 digits", [{ ...OLD_TOTP, digits: 8 }], "totp_unsupported"],
  ["an old OTP without a key", [{ ...OLD_TOTP, hashedSaltedValue: "" }], "second_factor_unsupported"],
])("a Keycloak user with %s is refused, not imported without it", (_what, credentials, refusal) => {
  expect(keycloakWith(...credentials)).toMatchObject({ refusal });
});

test.each([
  ["pbkdf2", "$pbkdf2-sha1$i=20000$c2FsdA$dmFsdWU"],
  ["pbkdf2-sha256", "$pbkdf2-sha256$i=20000$c2FsdA$dmFsdWU"],
  ["pbkdf2-sha512", "$pbkdf2-sha512$i=20000$c2FsdA$dmFsdWU"],
])("a %s password in the form before Keycloak 12, and its OTP, are read", (algorithm, passwordHash) => {
  const old = { type: "password", hashedSaltedValue: "dmFsdWU=", salt: "c2FsdA==", hashIterations: 20_000 };
  const record = keycloakWith({ ...old, algorithm, counter: 0, digits: 0, config: {} }, OLD_TOTP);
  expect(record).toMatchObject({ user: { passwordHash, totpSecret: KEY } });
});

test.each(["", null, undefined])("bcrypt of Keycloak's extension is read, with the salt %j", (salt) => {
  const password = {
    type: "password",
    secretData: JSON.stringify({ value: BCRYPT, salt }),
    credentialData: JSON.stringify({ hashIterations: 10, algorithm: "bcrypt" }),
  };
  expect(keycloakWith(password)).toMatchObject({ user: { passwordHash: BCRYPT } });
});

test("of several Keycloak roles the first one of the command line counts", () => {
  const roleOf = (...realmRoles: string[]) => {
    const record = keycloakUser({ realmRoles }, MAPPING);
    return "user" in record && [record.user.role, record.leftOut];
  };
  expect(roleOf("auditor", "admin", "clerk")).toEqual(["ADMIN", ["role clerk"]]);
  expect(roleOf("offline_access", "default-roles-shop")).toEqual(["", []]);
  expect(keycloakUser({ serviceAccountClientId: "shop" }, MAPPING)).toMatchObject({
    refusal: "service_account",
  });
});

test("Auth0's users get the hashes of the other file, by id, also by an id of the customer", async () => {
  const hashes = [
    { _id: { $oid: "5dea" }, email: "ada@example.com", passwordHash: BCRYPT },
    { _id: { $oid: "5deb" }, alt_id: "euclid", passwordHash: `${BCRYPT.slice(0, -1)}n` },
    { _id: { $oid: "5dec" } },
  ];
  const passwords = join(folder, "passwords.ndjson");
  await writeFile(passwords, hashes.map((hash) => `${JSON.stringify(hash)}\n`).join(""));
  const users = [
    {
      user_id: "auth0|5dea",
      email: "ada@example.com",
      email_verified: true,
      name: "ada@example.com",
      given_name: "Ada",
      family_name: "Lovelace",
      blocked: true,
      identities: [
        { provider: "auth0", user_id: "5dea" },
        { provider: "google-oauth2", user_id: 4711 },
        { provider: "windowslive", user_id: "1" },
      ],
    },
    { user_id: "auth0|euclid", email: "e@example.com", name: "Euclid of Alexandria" },
    { user_id: "google-oauth2|1", email: "g@example.com" },
  ];
  const content = users.map((user) => `${JSON.stringify(user)}\n`).join("\n");
  const rows = await read("users.ndjson", content, { source: "auth0", passwords });
  expect(rows).toEqual([
    {
      at: 1,
      sourceId: "auth0|5dea",
      leftOut: ["provider windowslive"],
      user: {
        ...NO_USER,
        email: "ada@example.com",
        emailVerified: true,
        firstName: "Ada",
        lastName: "Lovelace",
        passwordHash: BCRYPT,
        disabled: true,
        identities: [{ provider: "google", subject: "4711" }],
      },
    },
    {
      at: 3,
      sourceId: "auth0|euclid",
      leftOut: [],
      user: {
        ...NO_USER,
        email: "e@example.com",
        name: "Euclid of Alexandria",
        passwordHash: `${BCRYPT.slice(0, -1)}n`,
      },
    },
    { at: 5, sourceId: "google-oauth2|1", leftOut: [], user: { ...NO_USER, email: "g@example.com" } },
  ]);
});

test("Auth0's other files have the hash in the row", () => {
  const hashIn = (row: object) => {
    const record = auth0User(row, MAPPING, NO_HASHES);
    return "user" in record && [record.user.email, record.user.emailVerified, record.user.passwordHash];
  };
  const identifiers = [{ type: "email", value: "ada@example.com", verified: true }];
  expect(hashIn({ _id: { $oid: "1" }, identifiers, passwordHash: BCRYPT })).toEqual([
    "ada@example.com",
    true,
    BCRYPT,
  ]);
  expect(hashIn({ email: "a@example.com", password_hash: BCRYPT })).toEqual(["a@example.com", false, BCRYPT]);
  const custom = { algorithm: "pbkdf2", hash: { value: "$pbkdf2-sha512$i=1000,l=64$x$y" } };
  expect(hashIn({ email: "a@example.com", custom_password_hash: custom })).toContain(custom.hash.value);
});

test.each([
  { mfa_factors: [{ totp: { secret: KEY_TEXT } }] },
  { mfa_factors: [{ phone: { value: "+12125550001" } }] },
  { multifactor: ["guardian"] },
])("an Auth0 user with %o is refused, not imported without it", (factors) => {
  const row = { user_id: "auth0|1", email: "a@example.com", ...factors };
  expect(auth0User(row, MAPPING, NO_HASHES)).toMatchObject({
    sourceId: "auth0|1",
    refusal: "second_factor_unsupported",
  });
});

test.each([{ mfa_factors: [] }, { multifactor: null }])("an Auth0 user with %o has no factor", (factors) => {
  const record = auth0User({ email: "a@example.com", ...factors }, MAPPING, NO_HASHES);
  expect(record).toMatchObject({ user: { email: "a@example.com" } });
});

const SUPABASE = {
  id: "s1",
  email: "ada@example.com",
  encrypted_password: BCRYPT,
  email_confirmed_at: "2026-01-01T00:00:00Z",
  raw_user_meta_data: { full_name: "Ada Lovelace", age: 36 },
  identities: [
    { provider: "email", provider_id: "s1" },
    { provider: "google-oauth2", provider_id: "4711" },
  ],
  factors: [{ factor_type: "totp", secret: KEY_TEXT }],
};
const ADA = {
  ...NO_USER,
  email: "ada@example.com",
  emailVerified: true,
  name: "Ada Lovelace",
  passwordHash: BCRYPT,
  identities: [{ provider: "google", subject: "4711" }],
};

test("a Supabase user is the same in JSON and in CSV", async () => {
  const cells = ["s1", "ada@example.com", BCRYPT, "2026-01-01 00:00:00+00", "", "f"];
  const json = [SUPABASE.raw_user_meta_data, SUPABASE.identities, SUPABASE.factors].map(
    (value) => `"${JSON.stringify(value).replaceAll('"', '""')}"`,
  );
  const head =
    "id,email,encrypted_password,email_confirmed_at,banned_until,is_anonymous,raw_user_meta_data,identities,factors";
  const rows = [
    ...(await read("s.ndjson", JSON.stringify(SUPABASE), { source: "supabase" })),
    ...(await read("s.json", JSON.stringify([SUPABASE]), { source: "supabase" })),
    ...(await read("s.csv", `${head}\n${[...cells, ...json].join(",")}\n`, { source: "supabase" })),
  ];
  expect(rows.map(({ at }) => at)).toEqual([1, 1, 2]);
  for (const row of rows) {
    expect(row).toMatchObject({
      sourceId: "s1",
      leftOut: [],
      user: { ...ADA, totpSecret: expect.anything() },
    });
    expect("user" in row && Buffer.from(row.user.totpSecret)).toEqual(KEY);
  }
});

test.each([
  [{ deleted_at: "2026-01-01T00:00:00Z" }, { refusal: "deleted" }],
  [{ is_anonymous: true }, { refusal: "anonymous" }],
  [{ is_anonymous: "t" }, { refusal: "anonymous" }],
  [{ is_sso_user: "t" }, { refusal: "sso_user" }],
  [{ factors: [{ factor_type: "phone", secret: null }] }, { refusal: "second_factor_unsupported" }],
  [{ factors: [...SUPABASE.factors, ...SUPABASE.factors] }, { refusal: "several_totp" }],
  [{ factors: [{ factor_type: "totp", secret: "no Base32" }] }, { refusal: "totp_unsupported" }],
  [{ banned_until: "2020-01-01T00:00:00Z" }, { user: { disabled: false } }],
  [{ banned_until: "2999-01-01T00:00:00Z" }, { user: { disabled: true } }],
  [{ banned_until: "infinity" }, { user: { disabled: true } }],
  [
    { encrypted_password: null, email_confirmed_at: null },
    { user: { passwordHash: "", emailVerified: false } },
  ],
])("a Supabase user with %j is %j", (change, expected) => {
  expect(supabaseUser({ ...SUPABASE, ...change }, MAPPING)).toMatchObject(expected);
});

test("in lines of JSON only the address is needed, and an unknown field is refused by its name", () => {
  expect(plainUser({ email: "ada@example.com" })).toMatchObject({
    user: { ...NO_USER, email: "ada@example.com" },
  });
  expect(plainUser({ email: "a", emailverified: true })).toMatchObject({
    refusal: "row_invalid",
    field: "emailverified",
  });
  expect(plainUser({ email: "a", language: "pt-BR" })).toMatchObject({ user: { language: "pt-BR" } });
  expect(plainUser({ email: "a", language: "Deutsch!" })).toMatchObject({ field: "language" });
  expect(plainUser({ email: 1 })).toMatchObject({ refusal: "row_invalid", field: "email" });
  expect(plainUser({ email: "a", totpSecret: "!" })).toMatchObject({ refusal: "totp_unsupported" });
  expect(plainUser(undefined)).toMatchObject({ refusal: "row_unreadable" });
});

const NO_TIMES = [
  ...[
    "NaN",
    "undefined",
    "nil",
    "0",
    "1",
    "false",
    "true",
    "t",
    "None",
    "Null",
    "-infinity",
    "1700000000",
    " ",
  ],
  ...["0000-00-00 00:00:00", "0001-01-01T00:00:00Z", "1970-01-01 00:00:00+00", "2026-02-30 00:00:00+00"],
  ...["2026-13-01T00:00:00Z", "2026-01-01", "01.01.2026", "yesterday", "2026-01-01 25:00:00+00"],
  ...["2026-01-01T00:00:00Zx", "x2026-01-01T00:00:00Z", 1_700_000_000, 0, true, false, [], {}],
];
const NULLS = ["", "null", "NULL", "\\N", null, undefined];
const fieldOf = (record: ReturnType<typeof supabaseUser>) =>
  "refusal" in record && [record.refusal, record.field];

test.each(NO_TIMES)("a Supabase time that is %j is an error, and never a verified address", (value) => {
  for (const column of ["email_confirmed_at", "deleted_at", "banned_until"]) {
    expect(fieldOf(supabaseUser({ ...SUPABASE, [column]: value }, MAPPING))).toEqual(["row_invalid", column]);
  }
});

test.each(["infinity", "2999-01-01T00:00:00Z"])("nobody confirmed an address at %s", (value) => {
  expect(fieldOf(supabaseUser({ ...SUPABASE, email_confirmed_at: value }, MAPPING))).toEqual([
    "row_invalid",
    "email_confirmed_at",
  ]);
});

test.each([
  "2026-01-01 00:00:00+00",
  "2026-01-01 00:00:00.123456+00",
  "2026-01-01 00:00:00.12+05:30",
  "2026-01-01T00:00:00-0330",
  "2026-01-01 00:00:00.000 +0200",
  "2026-01-01 00:00:00",
  "2026-01-01T00:00:00.123456Z",
])("%s is a time of PostgreSQL", (value) => {
  const at = (column: string) => supabaseUser({ ...SUPABASE, [column]: value }, MAPPING);
  expect(at("email_confirmed_at")).toMatchObject({ user: { emailVerified: true } });
  expect(at("banned_until")).toMatchObject({ user: { disabled: false } });
  expect(at("deleted_at")).toMatchObject({ refusal: "deleted" });
});

test("the zone of a time counts", () => {
  const now = Date.parse("2026-06-01T12:00:00Z");
  vi.useFakeTimers({ now, toFake: ["Date"] });
  const isDisabled = (banned_until: string) => {
    const record = supabaseUser({ ...SUPABASE, banned_until }, MAPPING);
    return "user" in record && record.user.disabled;
  };
  expect(isDisabled("2026-06-01 14:00:01+02")).toBe(true);
  expect(isDisabled("2026-06-01 13:59:59+02")).toBe(false);
  expect(isDisabled("2026-06-01 08:30:01-0330")).toBe(true);
  expect(isDisabled("2026-06-01 11:59:59")).toBe(false);
  vi.useRealTimers();
});

test.each(NULLS)("%j is no value in any column of Supabase", (value) => {
  const columns = [
    ...["id", "encrypted_password", "email_confirmed_at", "banned_until", "deleted_at"],
    ...["is_anonymous", "is_sso_user", "raw_user_meta_data", "identities"],
  ];
  const factors = value ?? null;
  const row = { ...Object.fromEntries(columns.map((column) => [column, value])), factors };
  const expected = { sourceId: "", leftOut: [], user: { ...NO_USER, email: "ada@example.com" } };
  expect(supabaseUser({ ...row, email: "ada@example.com" }, MAPPING)).toEqual(expected);
  const names = { first_name: value, given_name: value, full_name: value, name: value };
  expect(supabaseUser({ email: "ada@example.com", raw_user_meta_data: names, factors }, MAPPING)).toEqual(
    expected,
  );
});

test.each(NULLS)("%j is no value in any member of the other formats", (value) => {
  const email = "ada@example.com";
  const filled = (...names: string[]) => Object.fromEntries(names.map((name) => [name, value]));
  const expected = { sourceId: "", leftOut: [], user: { ...NO_USER, email } };
  const names = ["firstName", "lastName"];
  const lists = ["credentials", "requiredActions", "federatedIdentities", "realmRoles"];
  const keycloak = filled("id", "emailVerified", ...names, "serviceAccountClientId", ...lists);
  expect(keycloakUser({ ...keycloak, email }, MAPPING)).toEqual(expected);
  const profile = ["user_id", "alt_id", "email_verified", "given_name", "family_name", "name", "blocked"];
  const auth0 = filled(...profile, "identifiers", "identities", "passwordHash", "password_hash");
  expect(auth0User({ ...auth0, email }, MAPPING, NO_HASHES)).toEqual(expected);
  const flags = ["emailVerified", "disabled", "mustChangePassword"];
  const plain = filled("id", ...names, "name", "passwordHash", "role", ...flags, "identities");
  expect(plainUser({ ...plain, email })).toEqual(expected);
});

const NO_FLAGS = ["true", "false", "True", "t", "yes", "1", 1, 0, [], {}, "NaN", "undefined"];
test.each(NO_FLAGS)("where JSON has a boolean, %j is an error, and never a verified address", (value) => {
  const email = "ada@example.com";
  const fields = [
    keycloakUser({ email, emailVerified: value }, MAPPING),
    keycloakUser({ email, enabled: value }, MAPPING),
    auth0User({ email, email_verified: value }, MAPPING, NO_HASHES),
    auth0User({ email, blocked: value }, MAPPING, NO_HASHES),
    auth0User({ identifiers: [{ type: "email", value: email, verified: value }] }, MAPPING, NO_HASHES),
    ...["emailVerified", "disabled", "mustChangePassword"].map((name) => plainUser({ email, [name]: value })),
  ].map(fieldOf);
  expect(fields).toEqual(
    [
      ...["emailVerified", "enabled", "email_verified", "blocked", "identifiers.0.verified"],
      ...["emailVerified", "disabled", "mustChangePassword"],
    ].map((field) => ["row_invalid", field]),
  );
});

test.each(["TRUE", "yes", "1", 1, "NaN"])("a Supabase flag that is %j is an error", (value) => {
  for (const column of ["is_anonymous", "is_sso_user"]) {
    expect(fieldOf(supabaseUser({ ...SUPABASE, [column]: value }, MAPPING))).toEqual(["row_invalid", column]);
  }
});

test.each([[["a@example.com"]], [1], [true], [{}]])("%j is no text", (value) => {
  expect(fieldOf(supabaseUser({ ...SUPABASE, encrypted_password: value }, MAPPING))).toEqual([
    "row_invalid",
    "encrypted_password",
  ]);
  expect(fieldOf(keycloakUser({ email: value }, MAPPING))).toEqual(["row_invalid", "email"]);
  expect(fieldOf(auth0User({ email: value }, MAPPING, NO_HASHES))).toEqual(["row_invalid", "email"]);
  expect(fieldOf(plainUser({ email: "a", passwordHash: value }))).toEqual(["row_invalid", "passwordHash"]);
});

test.each(["null", "NULL", "\\N", ""])(
  "%j is no subject of an identity, which all its owners would share",
  (id) => {
    const email = "ada@example.com";
    const fields = [
      supabaseUser({ ...SUPABASE, identities: [{ provider: "google-oauth2", provider_id: id }] }, MAPPING),
      keycloakUser({ email, federatedIdentities: [{ identityProvider: "g", userId: id }] }, MAPPING),
      auth0User({ email, identities: [{ provider: "google-oauth2", user_id: id }] }, MAPPING, NO_HASHES),
      plainUser({ email, identities: [{ provider: "google", subject: id }] }),
    ];
    for (const record of fields) expect(record).toMatchObject({ refusal: "row_invalid" });
  },
);

test("a Supabase file that does not say whether users have a second factor is named so; null says that one has none", () => {
  const leftOut = (row: object) => supabaseUser({ id: "1", email: "a@example.com", ...row }, MAPPING).leftOut;
  expect(leftOut({})).toEqual(["factors, which the file does not have"]);
  expect(leftOut({ factors: null })).toEqual([]);
  expect(leftOut({ factors: "" })).toEqual([]);
});

test("a factor without a key refuses the Supabase user, who is not imported without it", () => {
  const factors = [{ factor_type: "totp", secret: null }];
  expect(supabaseUser({ ...SUPABASE, factors }, MAPPING)).toMatchObject({ refusal: "totp_unsupported" });
});

test("Auth0's word for another address does not verify this one", () => {
  const identifiers = [{ type: "email", value: "other@example.com", verified: true }];
  const record = auth0User({ email: "ada@example.com", identifiers }, MAPPING, NO_HASHES);
  expect(record).toMatchObject({ user: { email: "ada@example.com", emailVerified: false } });
});

const USER = { username: "ada", email: "ada@example.com", emailVerified: true };
const realm = (name: string, ...users: object[]) => ({ realm: name, enabled: true, users });
const KEYCLOAK_FILES: [what: string, content: string | Buffer, problem: string | RegExp][] = [
  ["a partial export", JSON.stringify({ realm: "shop", roles: {} }), /no users.*--users realm_file/],
  ["a realm without users", JSON.stringify(realm("shop")), /no users.*--users realm_file/],
  ["realms without users", JSON.stringify([realm("master"), realm("shop")]), /no users.*--users realm_file/],
  ["an empty array", "[]", "has no users"],
  ["several realms", JSON.stringify([realm("a", USER), realm("b", USER)]), "choose one by --realm: a, b"],
  ["the answer of the admin API", JSON.stringify([USER]), /list of users of the admin API/],
  [
    "users of Firebase",
    JSON.stringify({ users: [{ localId: "1" }] }),
    "has users of Firebase, not of keycloak",
  ],
  ["no JSON", "email\n", "is not JSON"],
  ["broken JSON", '{"users":[{', "not valid JSON"],
];
const ANY_FILES: typeof KEYCLOAK_FILES = [
  ["nothing", "", "is empty"],
  ["only spaces", "\ufeff \n", "is empty"],
  ["HTML", "<!doctype html>", "is HTML or XML"],
  ["UTF-16", Buffer.from("\ufeff{}", "utf16le"), "UTF-16"],
  ["UTF-16 without a mark", Buffer.from("{}", "utf16le"), "save it as UTF-8"],
  ["gzip", Buffer.from([0x1f, 0x8b, 8, 0]), "(gzip): unpack"],
  ["ZIP", "PK\u0003\u0004", "(ZIP): unpack"],
];
const LINES_FILES: typeof KEYCLOAK_FILES = [
  ["an empty array", "[]", "has no users"],
  ["one value over several lines", '{\n "users": []\n}', "no JSON in its first line"],
  ["users of Firebase", '{"localId":"1"}', "has users of Firebase, not of"],
  ["a realm of Keycloak", JSON.stringify(realm("shop", USER)), "use --from keycloak"],
];
const CSV_FILES: typeof KEYCLOAK_FILES = [
  ["a head alone", "id,email\n", "has no users"],
  ["another separator", "id;email\n1;a@example.com\n", "has no column id and no column email"],
  ["another head", "uid,email\n1,a@example.com\n", "has no column id in its first line"],
  ["no head", "1,a@example.com\n", "has no column id"],
  ["JSON", '{"id":"1"}\n', "rename it to .ndjson"],
  ["a column twice", "id,email,id\n1,a@example.com,2\n", "names a column twice"],
];
const CASES = (["keycloak", "auth0", "supabase", "ndjson"] as const).flatMap((source) => [
  ...ANY_FILES.map((row) => [source, "f.json", ...row] as const),
  ...(source === "keycloak" ? KEYCLOAK_FILES : LINES_FILES).map((row) => [source, "f.json", ...row] as const),
  ...(source === "supabase" ? [...ANY_FILES, ...CSV_FILES] : []).map(
    (row) => [source, "f.csv", ...row] as const,
  ),
]);
test.each(CASES)("a file for %s, %s, that is %s says so", async (source, name, _what, content, problem) => {
  await expect(read(name, content, { source })).rejects.toMatchObject({
    exitCode: 66,
    message: typeof problem === "string" ? expect.stringContaining(problem) : expect.stringMatching(problem),
  });
});

test("in an array of Keycloak's realms the one with users is read, or the one of --realm", async () => {
  const other = { ...USER, email: "ben@example.com" };
  const emails = async (realms: unknown, name?: string) =>
    (await read("all.json", JSON.stringify(realms), { source: "keycloak", realm: name })).map(
      (row) => "user" in row && [row.at, row.user.email],
    );
  expect(await emails([realm("master"), realm("shop", USER, other)])).toEqual([
    [1, "ada@example.com"],
    [2, "ben@example.com"],
  ]);
  const both = [realm("a", USER), realm("b", other), { users: [USER], realm: "late" }];
  expect(await emails(both, "b")).toEqual([[1, "ben@example.com"]]);
  expect(await emails(both, "late")).toEqual([[1, "ada@example.com"]]);
  expect(await emails(realm("a", USER), "a")).toEqual([[1, "ada@example.com"]]);
  await expect(emails(both, "c")).rejects.toThrow("has no realm c, but: a, b, late");
  await expect(emails([realm("master"), realm("a", USER)], "master")).rejects.toThrow("has no users");
});

test("a file of hashes without any hash is an error, because all users would come without a password", async () => {
  const passwords = join(folder, "none.ndjson");
  await writeFile(passwords, '{"user_id":"auth0|1"}\n');
  const users = read("u.ndjson", '{"user_id":"auth0|1","email":"a@example.com"}', {
    source: "auth0",
    passwords,
  });
  await expect(users).rejects.toThrow("has no hash of a password");
});

test.each([
  [{ encoding: "utf16le" }, "hash_format_unknown"],
  [{ encoding: "latin1" }, "hash_format_unknown"],
  [{ encoding: "utf8" }, undefined],
  [{}, undefined],
])(
  "Auth0's hash of a password in bytes of %j could never be verified unless it is UTF-8",
  (password, refusal) => {
    const custom_password_hash = { algorithm: "bcrypt", hash: { value: BCRYPT }, password };
    const record = auth0User({ email: "a@example.com", custom_password_hash }, MAPPING, NO_HASHES);
    expect(record).toMatchObject(refusal === undefined ? { user: { passwordHash: BCRYPT } } : { refusal });
  },
);

test("a file of hashes with a line that is cut off is an error, because its users would come without a password", async () => {
  const passwords = join(folder, "half.ndjson");
  const hash = JSON.stringify({ _id: { $oid: "1" }, passwordHash: BCRYPT });
  await writeFile(passwords, `${hash}\n${hash.slice(0, 40)}`);
  const users = read("u.ndjson", '{"user_id":"auth0|1","email":"a@example.com"}', {
    source: "auth0",
    passwords,
  });
  await expect(users).rejects.toThrow("has no JSON in line 2 of the hashes");
});
