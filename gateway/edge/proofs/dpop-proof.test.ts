import { createHash, createPrivateKey, generateKeyPairSync, sign } from "node:crypto";
import { exportJWK } from "jose";
import { beforeAll, describe, expect, test } from "vitest";
import { type DpopClient, dpopClient, type ProofParts } from "#tests/support/people/dpop-client.ts";
import { DPOP_ALGORITHMS, DpopProofs, type ProofFailure } from "./dpop-proof.ts";

const URL_OF_CALL = "https://api.example/payments";
const TOKEN = "access.jwt.text";
const NOW_MS = 1_800_000_000_500;
const NOW_S = Math.floor(NOW_MS / 1_000);
const ath = createHash("sha256").update(TOKEN).digest("base64url");

let client: DpopClient;
let other: DpopClient;
beforeAll(async () => {
  [client, other] = await Promise.all([dpopClient(), dpopClient()]);
});

const made = (parts: ProofParts = {}, of = client) =>
  of.proof({ url: URL_OF_CALL, token: TOKEN, ...parts, claims: { iat: NOW_S, ...parts.claims } });

function check(proof: string, { url = URL_OF_CALL, method = "POST", jkt = client.jkt } = {}) {
  return new DpopProofs(() => NOW_MS).check(proof, { method, url, token: { text: TOKEN, jkt } });
}

test.each(DPOP_ALGORITHMS)("a proof by %s is valid, and names its key and its id", async (alg) => {
  const of = await dpopClient(alg);
  const proof = await made({ claims: { jti: "a", nonce: "n" } }, of);
  expect(check(proof, { jkt: of.jkt })).toEqual({ jkt: of.jkt, jti: "a", nonce: "n" });
});

test("a request for tokens has no token yet: any key, and `ath` is not asked for", async () => {
  const proof = await made({ claims: { ath: undefined } });
  const proofs = new DpopProofs(() => NOW_MS);
  const call = { method: "POST", url: URL_OF_CALL, token: undefined };
  expect(proofs.check(proof, call)).toMatchObject({ jkt: client.jkt });
});

describe("refused", () => {
  test.each<[string, ProofParts, ProofFailure]>([
    ["for another method", { method: "GET" }, "htm"],
    ["for the method in small letters", { method: "post" }, "htm"],
    ["for another path", { url: "https://api.example/payees" }, "htu"],
    ["for another host", { url: "https://other.example/payments" }, "htu"],
    ["for another scheme", { url: "http://api.example/payments" }, "htu"],
    ["for another port", { url: "https://api.example:8443/payments" }, "htu"],
    ["for the path with a slash", { url: "https://api.example/payments/" }, "htu"],
    ["for the path in capitals", { url: "https://api.example/Payments" }, "htu"],
    ["for a URL with a user", { url: "https://api.example@api.example/payments" }, "htu"],
    ["for a path alone", { claims: { htu: "/payments" } }, "htu"],
    ["for no URL", { claims: { htu: undefined } }, "htu"],
    ["for several URLs", { claims: { htu: [URL_OF_CALL] } }, "htu"],
    ["of 31 s ago", { claims: { iat: NOW_S - 31 } }, "iat"],
    ["of the future", { claims: { iat: NOW_S + 31 } }, "iat"],
    ["without a time", { claims: { iat: undefined } }, "iat"],
    ["with its time as text", { claims: { iat: String(NOW_S) } }, "iat"],
    ["without an id", { claims: { jti: undefined } }, "jti"],
    ["with an empty id", { claims: { jti: "" } }, "jti"],
    ["with an id that is too long", { claims: { jti: "j".repeat(129) } }, "jti"],
    ["with an id that is no text", { claims: { jti: 1 } }, "jti"],
    ["with a nonce that is no text", { claims: { nonce: 1 } }, "nonce"],
    ["for another token", { token: "another.jwt.text" }, "ath"],
    ["without a hash of the token", { claims: { ath: undefined } }, "ath"],
    [
      "with the token's hash in hexadecimal",
      { claims: { ath: Buffer.from(ath, "base64url").toString("hex") } },
      "ath",
    ],
    ["as a token of another type", { header: { typ: "JWT" } }, "typ"],
    ["as an access token", { header: { typ: "at+jwt" } }, "typ"],
    ["without a type", { header: { typ: undefined } }, "typ"],
    ["without a key", { header: { jwk: undefined } }, "jwk"],
    ["with a name in place of the key", { header: { jwk: "key-1" } }, "jwk"],
    ["with critical extensions", { header: { crit: ["b64"], b64: true } }, "form"],
  ])("a proof %s", async (_what, parts, failure) => {
    expect(check(await made(parts))).toBe(failure);
  });

  test("a proof of another key than the token's", async () => {
    expect(check(await made({}, other))).toBe("key");
  });

  test("a proof with the token's key that another key has signed", async () => {
    const { jwk } = client;
    expect(check(await made({ header: { jwk } }, other))).toBe("signature");
  });

  test("a proof with its private key", async () => {
    const { d } = await exportJWK(client.privateKey);
    expect(check(await made({ header: { jwk: { ...client.jwk, d } } }))).toBe("jwk");
  });

  test("a proof whose key is not on its curve, or is written in a second form", async () => {
    const { x = "" } = client.jwk;
    const twin = x.slice(0, -1) + String.fromCharCode(x.charCodeAt(42) + 1);
    for (const jwk of [
      { ...client.jwk, y: x },
      { ...client.jwk, x: twin },
      { ...client.jwk, crv: "P-384" },
    ])
      expect(check(await made({ header: { jwk } }), { jkt: "" })).toMatch(/^(jwk|key)$/);
  });

  test("a key of another kind than the algorithm's", async () => {
    const ed = await dpopClient("EdDSA");
    expect(check(await made({ header: { jwk: ed.jwk } }))).toBe("jwk");
    expect(check(await made({ header: { jwk: client.jwk } }, ed))).toBe("jwk");
  });

  test("an algorithm that is not listed", async () => {
    expect(check(await made({}, await dpopClient("RS256")))).toBe("alg");
  });

  test.each(["none", "HS256", "ES384", ""])("the algorithm %j, whatever the signature", async (alg) => {
    const [, payload] = (await made()).split(".");
    const header = Buffer.from(JSON.stringify({ typ: "dpop+jwt", alg, jwk: client.jwk })).toString(
      "base64url",
    );
    expect(check(`${header}.${payload}.AAAA`)).toBe("alg");
  });

  test("every changed character", async () => {
    const proof = await made();
    for (let at = 0; at < proof.length; at += 7) {
      const changed = proof.slice(0, at) + (proof[at] === "A" ? "B" : "A") + proof.slice(at + 1);
      expect(typeof check(changed)).toBe("string");
    }
  });

  test("a signature as DER, or that is too short or too long", async () => {
    const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const jwk = publicKey.export({ format: "jwk" });
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const claims = { jti: "j", htm: "POST", htu: URL_OF_CALL, iat: NOW_S };
    const input = `${encode({ typ: "dpop+jwt", alg: "ES256", jwk })}.${encode(claims)}`;
    const call = { method: "POST", url: URL_OF_CALL, token: undefined };
    const signed = (signature: Buffer) =>
      new DpopProofs(() => NOW_MS).check(`${input}.${signature.toString("base64url")}`, call);
    const key = createPrivateKey({ key: privateKey.export({ format: "jwk" }), format: "jwk" });
    const plain = sign("sha256", Buffer.from(input), { key, dsaEncoding: "ieee-p1363" });
    expect(typeof signed(plain)).toBe("object");
    expect(signed(sign("sha256", Buffer.from(input), key))).toBe("signature");
    expect(signed(plain.subarray(0, 63))).toBe("signature");
    expect(signed(Buffer.concat([plain, Buffer.of(0)]))).toBe("signature");
  });

  test.each([
    ["nothing", ""],
    ["words", "proof"],
    ["two segments", "e30.e30"],
    ["four segments", "e30.e30.e30.e30"],
    ["two proofs", "e30.e30.AA, e30.e30.AA"],
    ["no JSON", "AAAA.AAAA.AAAA"],
    ["an array", `${Buffer.from("[]").toString("base64url")}.e30.AA`],
    ["padding", "e30=.e30=.AA=="],
    ["no signature", "e30.e30."],
  ])("%s in place of a proof", (_what, text) => {
    expect(check(text)).toBe("form");
  });

  test("a proof with a member twice, and one above the limit", async () => {
    const [, payload, signature] = (await made()).split(".");
    const twice = Buffer.from('{"typ":"JWT","typ":"dpop+jwt","alg":"ES256"}').toString("base64url");
    expect(check(`${twice}.${payload}.${signature}`)).toBe("form");
    expect(check(await made({ claims: { more: "x".repeat(3_500) } }))).toBe("form");
  });
});

test.each([
  ["the scheme and the host in capitals", "HTTPS://API.EXAMPLE/payments", URL_OF_CALL],
  ["the port that the scheme has anyway", "https://api.example:443/payments", URL_OF_CALL],
  ["a query and a fragment", "https://api.example/payments?page=2#top", URL_OF_CALL],
  ["an escape that is not needed", "https://api.example/p%61yments", URL_OF_CALL],
  ["an escape in small letters", "https://api.example/a%c3%a9", "https://api.example/a%C3%A9"],
  ["dots", "https://api.example/x/../payments", URL_OF_CALL],
  ["the port that was called", "https://api.example:8443/", "https://api.example:8443/"],
])("a URL with %s is the same URL", async (_what, htu, url) => {
  expect(check(await made({ claims: { htu } }), { url })).toMatchObject({ jkt: client.jkt });
});

test("an escaped slash is no slash", async () => {
  const proof = await made({ claims: { htu: "https://api.example/a%2Fb" } });
  expect(check(proof, { url: "https://api.example/a/b" })).toBe("htu");
});

test("a time 30 s away, to the millisecond and with a fraction, is accepted", async () => {
  for (const iat of [NOW_MS / 1_000 - 30, NOW_MS / 1_000 + 30, NOW_MS / 1_000])
    expect(check(await made({ claims: { iat } }))).toMatchObject({ jkt: client.jkt });
  expect(check(await made({ claims: { iat: NOW_MS / 1_000 - 30.001 } }))).toBe("iat");
});

test("a key is remembered from a valid proof only, and each signature is checked", async () => {
  const proofs = new DpopProofs(() => NOW_MS);
  const call = { method: "POST", url: URL_OF_CALL, token: { text: TOKEN, jkt: client.jkt } };
  for (let times = 0; times < 3; times += 1)
    expect(proofs.check(await made(), call)).toMatchObject({ jkt: client.jkt });
  expect(proofs.check(await made({ header: { jwk: client.jwk } }, other), call)).toBe("signature");
});
