import { pbkdf2, scrypt, timingSafeEqual } from "node:crypto";
import { promisify } from "node:util";
import * as argon2 from "@node-rs/argon2";
import * as bcrypt from "@node-rs/bcrypt";
import { ARGON2_CEILING, MIN_KIB_PER_LANE } from "./stored-hash.ts";

/** A hash that another system made. It is replaced by one of ours at the first login. */
export interface ForeignHash {
  /** As it is stored. */
  text: string;
  /** All before the salt. Hashes of one cost take equal time. */
  cost: string;
  /** Of scrypt in whole MiB, so that its small buffers do not count, as those of argon2 do not. */
  memoryKib: number;
  /** The password as typed: other systems do not normalise it. */
  verify(password: string): Promise<boolean>;
  /** Whether no other text has the same hash. One that has must not become the password. */
  readsWhole(password: string): boolean;
}

type HashProblem =
  | "hash_format_unknown"
  | "bcrypt_cost_too_high"
  | "pbkdf2_iterations_too_high"
  | "scrypt_cost_too_high"
  | "argon2_cost_too_high";

/** 2^12 rounds take about 0.25 s. */
const MAX_BCRYPT_COST = 12;
/** The recommendations of the OWASP Password Storage Cheat Sheet, which take less than 0.4 s. */
const MAX_PBKDF2_ITERATIONS = { sha1: 1_300_000, sha256: 600_000, sha512: 210_000 };
const DIGEST_BYTES = { sha1: 20, sha256: 32, sha512: 64 };
/** `N × r × p` of the same recommendations, and the memory of the dearest hash of ours. */
const MAX_SCRYPT_WORK = 2 ** 17 * 8;
const MAX_SCRYPT_KIB = ARGON2_CEILING.memoryKib;
/** OpenSSL's, of `128 × r` bytes each, beside those of N and of the lanes. */
const SCRYPT_SPARE_BLOCKS = 2;
const MIB_BYTES = 2 ** 20;

const [MIN_SALT_BYTES, MAX_SALT_BYTES] = [8, 64];
const [MIN_OUTPUT_BYTES, MAX_OUTPUT_BYTES] = [16, 64];

/** bcrypt repeats the text with a NUL at its end, up to 72 bytes. HMAC (RFC 2104 §2) fills its key up with NULs. */
const MAX_BCRYPT_BYTES = 72;
const hasNoNul = (password: string) => !password.includes("\0");
const fitsBcrypt = (password: string) =>
  Buffer.byteLength(password) <= MAX_BCRYPT_BYTES && hasNoNul(password);

const BCRYPT = /^\$(2[aby])\$(\d\d)\$([./A-Za-z0-9]{22})([./A-Za-z0-9]{31})$/;
const BCRYPT_ALPHABET = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/** @see https://github.com/P-H-C/phc-string-format/blob/master/phc-sf-spec.md */
const PHC =
  /^\$([a-z0-9-]{1,16})(\$v=19)?\$([a-z]{1,2}=[1-9]\d{0,7}(?:,[a-z]{1,2}=[1-9]\d{0,7}){0,3})\$([A-Za-z0-9+/]{1,86})\$([A-Za-z0-9+/]{1,86})$/;

interface Parts {
  cost: ReadonlyMap<string, number>;
  salt: Buffer;
  output: Buffer;
}

type Reading = ForeignHash | HashProblem;

/** Undefined for anything that `parseForeignHash` refuses. */
export function readForeignHash(text: string): ForeignHash | undefined {
  const reading = parseForeignHash(text);
  return typeof reading === "string" ? undefined : reading;
}

/** Bcrypt's format, and PHC strings of argon2, PBKDF2 and scrypt. A cost above the limits is refused by its name. */
export function parseForeignHash(text: string): Reading {
  const [, version, cost, salt, output] = BCRYPT.exec(text) ?? [];
  if (version !== undefined && salt !== undefined && output !== undefined) {
    return bcryptHash(`$${version}$${cost}`, Number(cost), salt, output);
  }
  const [, algorithm = "", argon2Version, costs = "", phcSalt = "", phcOutput = ""] = PHC.exec(text) ?? [];
  const parts = partsOf(costs, phcSalt, phcOutput);
  if (parts === undefined) return "hash_format_unknown";
  if (/^argon2(?:id|i|d)$/.test(algorithm)) {
    return argon2Version === undefined ? "hash_format_unknown" : argon2Hash(algorithm, parts);
  }
  if (argon2Version !== undefined) return "hash_format_unknown";
  if (algorithm === "scrypt") return scryptHash(parts);
  const digest = /^pbkdf2-(sha1|sha256|sha512)$/.exec(algorithm)?.[1];
  return digest === undefined
    ? "hash_format_unknown"
    : pbkdf2Hash(digest as keyof typeof DIGEST_BYTES, parts);
}

function bcryptHash(cost: string, log2Rounds: number, salt: string, output: string): Reading {
  if (log2Rounds < 4) return "hash_format_unknown";
  if (log2Rounds > MAX_BCRYPT_COST) return "bcrypt_cost_too_high";
  // Some libraries leave unused bits in the last characters. The verifier would refuse them.
  const text = `${cost}$${withoutSpareBits(salt, 4)}${withoutSpareBits(output, 2)}`;
  return {
    text,
    cost,
    memoryKib: 4,
    verify: (password) => bcrypt.verify(password, text),
    readsWhole: fitsBcrypt,
  };
}

function withoutSpareBits(encoded: string, count: number): string {
  const value = BCRYPT_ALPHABET.indexOf(encoded.slice(-1));
  return encoded.slice(0, -1) + BCRYPT_ALPHABET.charAt((value >> count) << count);
}

function argon2Hash(algorithm: string, { cost, salt, output }: Parts): Reading {
  const [memoryKib, iterations, parallelism] = valuesOf(cost, ["m", "t", "p"]);
  if (memoryKib === undefined || iterations === undefined || parallelism === undefined) {
    return "hash_format_unknown";
  }
  if (memoryKib < MIN_KIB_PER_LANE * parallelism) return "hash_format_unknown";
  const isTooHigh =
    memoryKib > ARGON2_CEILING.memoryKib ||
    iterations > ARGON2_CEILING.iterations ||
    parallelism > ARGON2_CEILING.parallelism;
  if (isTooHigh) return "argon2_cost_too_high";
  const costText = `$${algorithm}$v=19$m=${memoryKib},t=${iterations},p=${parallelism}`;
  const text = phc(costText, salt, output);
  return {
    text,
    cost: costText,
    memoryKib,
    verify: (password) => argon2.verify(text, password),
    readsWhole: () => true,
  };
}

function scryptHash({ cost, salt, output }: Parts): Reading {
  const [log2N, r, p] = valuesOf(cost, ["ln", "r", "p"]);
  if (log2N === undefined || r === undefined || p === undefined) return "hash_format_unknown";
  const N = 2 ** log2N;
  const maxmem = 128 * r * (N + p + SCRYPT_SPARE_BLOCKS);
  const memoryKib = Math.floor(maxmem / MIB_BYTES) * 1024;
  if (memoryKib > MAX_SCRYPT_KIB || N * r * p > MAX_SCRYPT_WORK) return "scrypt_cost_too_high";
  // RFC 7914 §2. OpenSSL refuses others.
  if (log2N >= 16 * r) return "hash_format_unknown";
  const costText = `$scrypt$ln=${log2N},r=${r},p=${p}`;
  const options = { N, r, p, maxmem };
  return {
    text: phc(costText, salt, output),
    cost: costText,
    memoryKib,
    verify: async (password) => timingSafeEqual(await derive(password, salt, output.length, options), output),
    readsWhole: hasNoNul,
  };
}

/** Callback of `scrypt` with options, for which `promisify` has no type. */
function derive(password: string, salt: Buffer, length: number, options: object): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    scrypt(password, salt, length, options, (error, key) => (error === null ? resolve(key) : reject(error)));
  });
}

/** RFC 8018 §5.2. Output after the first block is left out: it costs us more and an attacker nothing. */
function pbkdf2Hash(digest: keyof typeof DIGEST_BYTES, { cost, salt, output }: Parts): Reading {
  const iterations = cost.get("i");
  const others = [...cost.keys()].filter((name) => name !== "i" && name !== "l");
  const isWhole = (cost.get("l") ?? output.length) === output.length;
  if (iterations === undefined || others.length > 0 || !isWhole) return "hash_format_unknown";
  if (iterations > MAX_PBKDF2_ITERATIONS[digest]) return "pbkdf2_iterations_too_high";
  const block = output.subarray(0, DIGEST_BYTES[digest]);
  const costText = `$pbkdf2-${digest}$i=${iterations}`;
  return {
    text: phc(costText, salt, block),
    cost: costText,
    memoryKib: 0,
    verify: async (password) =>
      timingSafeEqual(await promisify(pbkdf2)(password, salt, iterations, block.length, digest), block),
    readsWhole: hasNoNul,
  };
}

function partsOf(costs: string, salt: string, output: string): Parts | undefined {
  const pairs = costs.split(",").map((cost) => cost.split("="));
  const cost = new Map(pairs.map(([name = "", value]) => [name, Number(value)]));
  const parts = { cost, salt: Buffer.from(salt, "base64"), output: Buffer.from(output, "base64") };
  const isSound =
    cost.size === pairs.length &&
    parts.salt.length >= MIN_SALT_BYTES &&
    parts.salt.length <= MAX_SALT_BYTES &&
    parts.output.length >= MIN_OUTPUT_BYTES &&
    parts.output.length <= MAX_OUTPUT_BYTES;
  return isSound ? parts : undefined;
}

/** Undefined unless the cost has these names and no others. */
function valuesOf(cost: ReadonlyMap<string, number>, names: readonly string[]): (number | undefined)[] {
  return cost.size === names.length ? names.map((name) => cost.get(name)) : [];
}

function phc(cost: string, salt: Buffer, output: Buffer): string {
  return `${cost}$${unpadded(salt)}$${unpadded(output)}`;
}

function unpadded(bytes: Buffer): string {
  return bytes.toString("base64").replace(/={1,2}$/, "");
}
