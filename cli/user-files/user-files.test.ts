import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
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

async function read(name: string, content: string, file: Omit<UserFile, "path" | "roles" | "providers">) {
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
const keycloakWith = (...credentials: object[]) => keycloakUser({ id: "1", credentials }, MAPPING);

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
    "a password in a form before Keycloak 12",
    [{ type: "password", hashedSaltedValue: "x" }],
    "hash_format_unknown",
  ],
])("a Keycloak user with %s is refused, not imported without it", (_what, credentials, refusal) => {
  expect(keycloakWith(...credentials)).toMatchObject({ refusal });
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
  expect(plainUser({ email: 1 })).toMatchObject({ refusal: "row_invalid", field: "email" });
  expect(plainUser({ email: "a", totpSecret: "!" })).toMatchObject({ refusal: "totp_unsupported" });
  expect(plainUser(undefined)).toMatchObject({ refusal: "row_unreadable" });
});
