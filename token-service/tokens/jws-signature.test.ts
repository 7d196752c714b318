import { createSecretKey, generateKeyPairSync, randomBytes, sign } from "node:crypto";
import { CompactSign, compactVerify } from "jose";
import { describe, expect, test } from "vitest";
import { type Algorithm, isSignedBy } from "#token-client/compact-jws.ts";
import { authenticateCompactJws, isAuthenticatedBy, signCompactJws } from "./jws-signature.ts";
import { checkSignature } from "./verify-token.ts";

// jose is the independent implementation: it judges what this code signs, and signs what this code judges.

const KEYS = {
  EdDSA: generateKeyPairSync("ed25519"),
  ES256: generateKeyPairSync("ec", { namedCurve: "P-256" }),
} satisfies Record<Algorithm, unknown>;
const ALGORITHMS: Algorithm[] = ["EdDSA", "ES256"];
const PAYLOADS = [
  {},
  { sub: "a" },
  { text: "ÄÖ€𝄞\u0000", list: [1, null, true] },
  { long: "x".repeat(2_000) },
];

const signer = (algorithm: Algorithm) => ({ id: "kid", algorithm, privateKey: KEYS[algorithm].privateKey });
const judge = (algorithm: Algorithm) => ({ algorithm, publicKey: KEYS[algorithm].publicKey });

/** A token with another signature, in bytes. */
const withSignature = (token: string, bytes: Uint8Array) =>
  `${token.slice(0, token.lastIndexOf("."))}.${Buffer.from(bytes).toString("base64url")}`;
const signatureOf = (token: string) => Buffer.from(token.split(".")[2] ?? "", "base64url");

describe("HS256", () => {
  const secret = createSecretKey(randomBytes(32));
  const make = (payload: Record<string, unknown>) =>
    authenticateCompactJws({ id: "kid", secret }, "rt+jwt", payload);

  test.each(PAYLOADS)("jose and we agree, both ways: %j", async (payload) => {
    const token = make(payload);
    const verified = await compactVerify(token, secret);
    expect(verified.protectedHeader).toEqual({ alg: "HS256", typ: "rt+jwt", kid: "kid" });
    expect(JSON.parse(Buffer.from(verified.payload).toString("utf8"))).toEqual(payload);
    const theirs = await new CompactSign(Buffer.from(JSON.stringify(payload)))
      .setProtectedHeader({ alg: "HS256", typ: "rt+jwt", kid: "kid" })
      .sign(secret);
    expect(isAuthenticatedBy(theirs, secret)).toBe(true);
  });

  test("a code with any one bit changed, of another length, text or secret is refused", () => {
    const token = make({ sub: "a" });
    const code = signatureOf(token);
    const changed = Array.from({ length: 256 }, (_, bit) => {
      const bytes = Buffer.from(code);
      bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      return bytes;
    });
    const lengths = [0, 16, 31].map((length) => code.subarray(0, length));
    for (const bytes of [...changed, ...lengths, Buffer.concat([code, code.subarray(0, 1)])])
      expect(isAuthenticatedBy(withSignature(token, bytes), secret)).toBe(false);
    expect(isAuthenticatedBy(withSignature(make({ sub: "b" }), code), secret)).toBe(false);
    expect(isAuthenticatedBy(token, createSecretKey(randomBytes(32)))).toBe(false);
    expect(isAuthenticatedBy(token, secret)).toBe(true);
  });
});

describe.each(ALGORITHMS)("%s", (algorithm) => {
  test.each(PAYLOADS)("jose verifies what we sign, and reads what we wrote: %j", async (payload) => {
    const token = signCompactJws(signer(algorithm), "at+jwt", payload);
    const verified = await compactVerify(token, KEYS[algorithm].publicKey);
    expect(verified.protectedHeader).toEqual({ alg: algorithm, typ: "at+jwt", kid: "kid" });
    expect(JSON.parse(Buffer.from(verified.payload).toString("utf8"))).toEqual(payload);
  });

  test.each(PAYLOADS)("we verify what jose signs: %j", async (payload) => {
    const token = await new CompactSign(Buffer.from(JSON.stringify(payload)))
      .setProtectedHeader({ alg: algorithm, typ: "at+jwt", kid: "kid" })
      .sign(KEYS[algorithm].privateKey);
    expect(isSignedBy(token, judge(algorithm))).toBe(true);
  });

  test("a signature with any one bit changed is refused, here and by jose", async () => {
    const token = signCompactJws(signer(algorithm), "at+jwt", { sub: "a" });
    for (let bit = 0; bit < 512; bit += 1) {
      const bytes = signatureOf(token);
      bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      const changed = withSignature(token, bytes);
      expect(isSignedBy(changed, judge(algorithm)), `bit ${bit}`).toBe(false);
      await expect(compactVerify(changed, KEYS[algorithm].publicKey)).rejects.toThrow(
        "signature verification failed",
      );
    }
  });

  test("a signature of another length, of another text or by another key is refused", () => {
    const token = signCompactJws(signer(algorithm), "at+jwt", { sub: "a" });
    const bytes = signatureOf(token);
    const lengths = [
      new Uint8Array(),
      bytes.subarray(1),
      bytes.subarray(0, 63),
      Buffer.concat([bytes, bytes]),
    ];
    for (const other of lengths) {
      expect(isSignedBy(withSignature(token, other), judge(algorithm))).toBe(false);
    }
    expect(isSignedBy(`x${token}`, judge(algorithm))).toBe(false);
    const another =
      algorithm === "EdDSA"
        ? generateKeyPairSync("ed25519")
        : generateKeyPairSync("ec", { namedCurve: "P-256" });
    expect(isSignedBy(token, { algorithm, publicKey: another.publicKey })).toBe(false);
  });

  test("the header's algorithm must be the key's", () => {
    const [other = "EdDSA"] = ALGORITHMS.filter((name) => name !== algorithm);
    const text = signCompactJws(signer(algorithm), "at+jwt", {});
    const jws = { header: { alg: algorithm, typ: "at+jwt", kid: "kid" }, payload: {}, text };
    expect(checkSignature(jws, judge(algorithm))).toBeUndefined();
    expect(checkSignature(jws, judge(other))).toBe("alg");
    expect(checkSignature({ ...jws, header: { ...jws.header, alg: other } }, judge(algorithm))).toBe("alg");
  });
});

/** A number as 32 bytes, the most significant first. */
const bytesOf = (value: bigint) => Buffer.from(value.toString(16).padStart(64, "0"), "hex");

describe("ES256", () => {
  // The order of P-256 (FIPS 186-5, SP 800-186 §3.2.1.3).
  const N = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
  const token = signCompactJws(signer("ES256"), "at+jwt", { sub: "a" });
  const r = signatureOf(token).subarray(0, 32);
  const s = signatureOf(token).subarray(32);

  test.each<[string, Uint8Array, Uint8Array]>([
    ["r and s are 0", bytesOf(0n), bytesOf(0n)],
    ["r is 0", bytesOf(0n), s],
    ["s is 0", r, bytesOf(0n)],
    ["r and s are 1", bytesOf(1n), bytesOf(1n)],
    ["r is the order", bytesOf(N), s],
    ["s is the order", r, bytesOf(N)],
    ["r and s are the greatest numbers", Buffer.alloc(32, 255), Buffer.alloc(32, 255)],
    ["r and s are exchanged", s, r],
  ])("a signature whose %s is refused", (_what, first, second) => {
    const forged = withSignature(token, Buffer.concat([first, second]));
    expect(isSignedBy(forged, judge("ES256"))).toBe(false);
  });

  test("a right signature in DER is refused (RFC 7518 §3.4)", () => {
    const input = token.slice(0, token.lastIndexOf("."));
    const der = sign("sha256", Buffer.from(input), KEYS.ES256.privateKey);
    expect(isSignedBy(withSignature(token, der), judge("ES256"))).toBe(false);
  });
});

describe("EdDSA", () => {
  // The order of the base point of Ed25519 (RFC 8032 §5.1).
  const L = 2n ** 252n + 27742317777372353535851937790883648493n;

  test("a signature whose S is not reduced is refused (RFC 8032 §5.1.7)", () => {
    const token = signCompactJws(signer("EdDSA"), "at+jwt", { sub: "a" });
    const bytes = signatureOf(token);
    const s = BigInt(`0x${Buffer.from(bytes.subarray(32)).reverse().toString("hex")}`);
    const unreduced = bytesOf(s + L).reverse();
    const forged = withSignature(token, Buffer.concat([bytes.subarray(0, 32), unreduced]));
    expect(isSignedBy(forged, judge("EdDSA"))).toBe(false);
  });

  test("the neutral element signs nothing for an honest key", () => {
    const token = signCompactJws(signer("EdDSA"), "at+jwt", { sub: "a" });
    const neutral = Buffer.concat([Buffer.of(1), Buffer.alloc(63)]);
    expect(isSignedBy(withSignature(token, neutral), judge("EdDSA"))).toBe(false);
  });
});
