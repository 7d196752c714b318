import { argon2d, argon2i, argon2id } from "@noble/hashes/argon2.js";
import { sha1 } from "@noble/hashes/legacy.js";
import { pbkdf2 } from "@noble/hashes/pbkdf2.js";
import { scrypt } from "@noble/hashes/scrypt.js";
import { sha256, sha512 } from "@noble/hashes/sha2.js";
import bcryptjs from "bcryptjs";
import { expect, test } from "vitest";
import { parseForeignHash, readForeignHash } from "./foreign-hash.ts";

const PASSWORD = "Correct-Horse-42 é";
const SALT = Buffer.from("a salt of sixteen".slice(0, 16));
const b64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64").replace(/=+$/, "");
const ARGON2 = { m: 1_024, t: 2, p: 2, dkLen: 32 };

// All made by libraries that are not the ones that verify them.
const HASHES: [string, string][] = [
  ["bcrypt 2a", bcryptjs.hashSync(PASSWORD, 4).replace("$2b$", "$2a$")],
  ["bcrypt 2b", bcryptjs.hashSync(PASSWORD, 5)],
  ["bcrypt 2y", bcryptjs.hashSync(PASSWORD, 4).replace("$2b$", "$2y$")],
  [
    "PBKDF2-SHA-1",
    `$pbkdf2-sha1$i=1000$${b64(SALT)}$${b64(pbkdf2(sha1, PASSWORD, SALT, { c: 1_000, dkLen: 20 }))}`,
  ],
  [
    "PBKDF2-SHA-256",
    `$pbkdf2-sha256$i=27500,l=32$${b64(SALT)}$${b64(pbkdf2(sha256, PASSWORD, SALT, { c: 27_500, dkLen: 32 }))}`,
  ],
  [
    "PBKDF2-SHA-256 of two blocks, as Keycloak's",
    `$pbkdf2-sha256$i=100$${b64(SALT)}$${b64(pbkdf2(sha256, PASSWORD, SALT, { c: 100, dkLen: 64 }))}`,
  ],
  [
    "PBKDF2-SHA-512",
    `$pbkdf2-sha512$i=2000$${b64(SALT)}$${b64(pbkdf2(sha512, PASSWORD, SALT, { c: 2_000, dkLen: 64 }))}`,
  ],
  [
    "scrypt",
    `$scrypt$ln=10,r=8,p=2$${b64(SALT)}$${b64(scrypt(PASSWORD, SALT, { N: 1_024, r: 8, p: 2, dkLen: 64 }))}`,
  ],
  [
    "argon2id of another shape",
    `$argon2id$v=19$m=1024,t=2,p=2$${b64(SALT.subarray(0, 8))}$${b64(argon2id(PASSWORD, SALT.subarray(0, 8), ARGON2))}`,
  ],
  ["argon2i", `$argon2i$v=19$m=1024,t=2,p=2$${b64(SALT)}$${b64(argon2i(PASSWORD, SALT, ARGON2))}`],
  ["argon2d", `$argon2d$v=19$m=1024,t=2,p=2$${b64(SALT)}$${b64(argon2d(PASSWORD, SALT, ARGON2))}`],
];

test.each(HASHES)("%s of another library verifies with the right password only", async (_what, text) => {
  const hash = readForeignHash(text);
  expect(await hash?.verify(PASSWORD)).toBe(true);
  expect(await hash?.verify(`${PASSWORD}!`)).toBe(false);
  expect(await hash?.verify("")).toBe(false);
});

test.each(HASHES)("%s is stored in a form that reads as itself", (_what, text) => {
  const hash = readForeignHash(text);
  expect(hash?.text).toMatch(/^.{40,256}$/);
  expect(readForeignHash(hash?.text ?? "")).toMatchObject({ text: hash?.text, cost: hash?.cost });
});

test("a password is compared as it was typed, because other systems do not normalise", async () => {
  const hash = readForeignHash(bcryptjs.hashSync("cafe\u0301", 4));
  expect(await hash?.verify("cafe\u0301")).toBe(true);
  expect(await hash?.verify("caf\u00e9")).toBe(false);
});

const bcrypt4 = (password: string) => bcryptjs.hashSync(password, 4);
const pbkdf2Of = (password: string) =>
  `$pbkdf2-sha256$i=100$${b64(SALT)}$${b64(pbkdf2(sha256, password, SALT, { c: 100, dkLen: 32 }))}`;
const scryptOf = (password: string) =>
  `$scrypt$ln=10,r=8,p=1$${b64(SALT)}$${b64(scrypt(password, SALT, { N: 1_024, r: 8, p: 1, dkLen: 64 }))}`;

test.each([
  ["bcrypt, another end after 72 bytes", bcrypt4("x".repeat(80)), `${"x".repeat(72)}mistyped`],
  ["bcrypt, two bytes a letter", bcrypt4("é".repeat(40)), `${"é".repeat(36)}à`],
  ["bcrypt, repeated after a NUL", bcrypt4("abc"), "abc\0abc"],
  ["PBKDF2, a NUL at the end", pbkdf2Of("abc"), "abc\0"],
  ["scrypt, a NUL at the end", scryptOf("abc"), "abc\0\0"],
])("%s: another text with the same hash is known as such", async (_what, text, other) => {
  const hash = readForeignHash(text);
  expect(await hash?.verify(other)).toBe(true);
  expect(hash?.readsWhole(other)).toBe(false);
});

test("a text that no other one stands for is known as such", () => {
  expect(readForeignHash(bcrypt4("x"))?.readsWhole("x".repeat(72))).toBe(true);
  expect(readForeignHash(bcrypt4("x"))?.readsWhole("x".repeat(73))).toBe(false);
  for (const [what, text] of HASHES)
    expect(readForeignHash(text)?.readsWhole(what.startsWith("bcrypt") ? "x" : "x".repeat(128))).toBe(true);
  expect(readForeignHash(HASHES[8]?.[1] ?? "")?.readsWhole("abc\0")).toBe(true);
});

test("unused bits in a bcrypt salt, as old libraries left them, do not lock anybody out", async () => {
  const text = bcryptjs.hashSync(PASSWORD, 4);
  const dirty = `${text.slice(0, 28)}${{ ".": "/", O: "P", e: "f", u: "v" }[text.charAt(28)]}${text.slice(29)}`;
  expect(dirty).not.toBe(text);
  const hash = readForeignHash(dirty);
  expect(hash?.text).toBe(text);
  expect(await hash?.verify(PASSWORD)).toBe(true);
});

const END = `$${"A".repeat(22)}$${"A".repeat(43)}`;
const BCRYPT_END = `$${".".repeat(53)}`;

test.each([
  [`$2b$13${BCRYPT_END}`, "bcrypt_cost_too_high"],
  [`$2b$31${BCRYPT_END}`, "bcrypt_cost_too_high"],
  [`$2b$03${BCRYPT_END}`, "hash_format_unknown"],
  [`$2x$10${BCRYPT_END}`, "hash_format_unknown"],
  [`$2b$10${BCRYPT_END}.`, "hash_format_unknown"],
  [`$pbkdf2-sha1$i=1300001$${"A".repeat(22)}$${"A".repeat(27)}`, "pbkdf2_iterations_too_high"],
  [`$pbkdf2-sha256$i=600001${END}`, "pbkdf2_iterations_too_high"],
  [`$pbkdf2-sha512$i=210001${END}`, "pbkdf2_iterations_too_high"],
  [`$pbkdf2-sha256$i=99999999${END}`, "pbkdf2_iterations_too_high"],
  [`$pbkdf2-sha256$i=0${END}`, "hash_format_unknown"],
  [`$pbkdf2-sha256$i=1000,l=64${END}`, "hash_format_unknown"],
  [`$pbkdf2-sha256$i=1000,x=1${END}`, "hash_format_unknown"],
  [`$pbkdf2-md5$i=1000${END}`, "hash_format_unknown"],
  [`$scrypt$ln=18,r=8,p=1${END}`, "scrypt_cost_too_high"],
  [`$scrypt$ln=17,r=8,p=2${END}`, "scrypt_cost_too_high"],
  [`$scrypt$ln=1,r=99999999,p=1${END}`, "scrypt_cost_too_high"],
  [`$scrypt$ln=99999999,r=8,p=1${END}`, "scrypt_cost_too_high"],
  [`$scrypt$ln=1,r=1,p=99999999${END}`, "scrypt_cost_too_high"],
  [`$scrypt$ln=16,r=1,p=1${END}`, "hash_format_unknown"],
  [`$scrypt$ln=10,r=8${END}`, "hash_format_unknown"],
  [`$argon2i$v=19$m=131073,t=2,p=1${END}`, "argon2_cost_too_high"],
  [`$argon2i$v=19$m=1024,t=11,p=1${END}`, "argon2_cost_too_high"],
  [`$argon2i$v=19$m=1024,t=2,p=5${END}`, "argon2_cost_too_high"],
  [`$argon2i$v=19$m=31,t=2,p=4${END}`, "hash_format_unknown"],
  [`$argon2i$m=1024,t=2,p=1${END}`, "hash_format_unknown"],
  [`$argon2i$v=19$m=1024,t=2,t=2${END}`, "hash_format_unknown"],
  [`$argon2i$v=19$m=1024,t=2,p=1$${"A".repeat(9)}$${"A".repeat(43)}`, "hash_format_unknown"],
  [`$scrypt$ln=10,r=8,p=1$${"A".repeat(22)}$${"A".repeat(20)}`, "hash_format_unknown"],
  ["{SSHA}nU4eI71bcnBGqeO0t9tXvY1u5oQ=", "hash_format_unknown"],
  ["5f4dcc3b5aa765d61d8327deb882cf99", "hash_format_unknown"],
  ["", "hash_format_unknown"],
])("%s is refused by name: %s", (text, problem) => {
  expect(parseForeignHash(text)).toBe(problem);
  expect(readForeignHash(text)).toBeUndefined();
});

const COSTS = [1, 4, 10, 15].flatMap((ln) =>
  [1, 2, 8].flatMap((r) => [1, 2, 16, 255, 4_096].map((p) => [ln, r, p] as const)),
);

test.each(COSTS.filter(([ln, r, p]) => 2 ** ln * r * p <= 2 ** 16))(
  "scrypt of ln=%i,r=%i,p=%i is verified, not only stored",
  async (ln, r, p) => {
    const output = scrypt(PASSWORD, SALT, { N: 2 ** ln, r, p, dkLen: 32 });
    const hash = readForeignHash(`$scrypt$ln=${ln},r=${r},p=${p}$${b64(SALT)}$${b64(output)}`);
    expect(await hash?.verify(PASSWORD)).toBe(true);
    expect(await hash?.verify(`${PASSWORD}!`)).toBe(false);
  },
);

test("the memory of scrypt counts its lanes, and not what is less than a MiB", () => {
  expect(readForeignHash(`$scrypt$ln=1,r=1,p=65536${END}`)?.memoryKib).toBe(8_192);
  expect(readForeignHash(`$scrypt$ln=14,r=8,p=1${END}`)?.memoryKib).toBe(16_384);
});

test("the recommendations of OWASP are within the limits", () => {
  for (const cost of ["$pbkdf2-sha1$i=1300000", "$pbkdf2-sha256$i=600000", "$pbkdf2-sha512$i=210000"]) {
    expect(readForeignHash(cost + END)).toBeDefined();
  }
  for (const cost of ["$scrypt$ln=17,r=8,p=1", "$scrypt$ln=16,r=8,p=2", "$scrypt$ln=13,r=8,p=10"]) {
    expect(readForeignHash(cost + END)).toBeDefined();
  }
});
