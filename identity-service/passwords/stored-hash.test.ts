import { expect, test } from "vitest";
import { readStoredHash } from "./stored-hash.ts";

const SALT = "c29tZXNhbHRzb21lc2FsdA"; // 16 bytes
const OUTPUT = "qB0lITSiRrTwaIRXNMyZ189tNEuqVXWHalZlDtzpWtw"; // 32 bytes

test.each([
  ["the floor", "m=19456,t=2,p=1", { memoryKib: 19_456, iterations: 2, parallelism: 1 }],
  ["an older, cheaper one", "m=4096,t=1,p=1", { memoryKib: 4_096, iterations: 1, parallelism: 1 }],
  ["another order", "m=19456,p=1,t=2", { memoryKib: 19_456, iterations: 2, parallelism: 1 }],
  ["the ceiling", "m=131072,t=10,p=4", { memoryKib: 131_072, iterations: 10, parallelism: 4 }],
])("%s is read", (_what, cost, parameters) => {
  expect(readStoredHash(`$argon2id$v=19$${cost}$${SALT}$${OUTPUT}`)).toEqual(parameters);
});

test.each([
  ["4 GiB of memory", `$argon2id$v=19$m=4194304,t=2,p=1$${SALT}$${OUTPUT}`],
  ["a KiB above the ceiling", `$argon2id$v=19$m=131073,t=2,p=1$${SALT}$${OUTPUT}`],
  ["11 passes", `$argon2id$v=19$m=19456,t=11,p=1$${SALT}$${OUTPUT}`],
  ["5 lanes", `$argon2id$v=19$m=19456,t=2,p=5$${SALT}$${OUTPUT}`],
  ["no memory", `$argon2id$v=19$m=0,t=2,p=1$${SALT}$${OUTPUT}`],
  ["less memory than its lanes need", `$argon2id$v=19$m=31,t=2,p=4$${SALT}$${OUTPUT}`],
  ["a leading zero", `$argon2id$v=19$m=019456,t=2,p=1$${SALT}$${OUTPUT}`],
  ["a sign", `$argon2id$v=19$m=+19456,t=2,p=1$${SALT}$${OUTPUT}`],
  ["argon2i", `$argon2i$v=19$m=19456,t=2,p=1$${SALT}$${OUTPUT}`],
  ["argon2d", `$argon2d$v=19$m=19456,t=2,p=1$${SALT}$${OUTPUT}`],
  ["version 1.0", `$argon2id$v=16$m=19456,t=2,p=1$${SALT}$${OUTPUT}`],
  ["no version", `$argon2id$m=19456,t=2,p=1$${SALT}$${OUTPUT}`],
  ["one parameter twice and one missing", `$argon2id$v=19$m=19456,t=2,t=2$${SALT}$${OUTPUT}`],
  ["two parameters", `$argon2id$v=19$m=19456,t=2$${SALT}$${OUTPUT}`],
  ["an unknown parameter", `$argon2id$v=19$m=19456,t=2,p=1,keyid=AAAA$${SALT}$${OUTPUT}`],
  ["a salt of 8 bytes", `$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$${OUTPUT}`],
  ["an output of 4 bytes", `$argon2id$v=19$m=19456,t=2,p=1$${SALT}$qB0lIQ`],
  ["spare bits set in the salt", `$argon2id$v=19$m=19456,t=2,p=1$${SALT.slice(0, -1)}B$${OUTPUT}`],
  ["spare bits set in the output", `$argon2id$v=19$m=19456,t=2,p=1$${SALT}$${OUTPUT.slice(0, -1)}x`],
  ["a line break after it", `$argon2id$v=19$m=19456,t=2,p=1$${SALT}$${OUTPUT}\n`],
  ["bcrypt", "$2b$12$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ012345"],
  ["nothing", ""],
])("a stored hash with %s is corrupt", (_what, text) => {
  expect(readStoredHash(text)).toBeUndefined();
});
