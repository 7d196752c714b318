import { readdirSync } from "node:fs";
import type { JWK } from "jose";
import { describe, expect, test } from "vitest";
import { corpusFolder, hasCorpus, readCorpus } from "#tests/support/house/corpora.ts";
import { type Algorithm, parseCompactJws } from "#token-client/compact-jws.ts";
import { importPublicKey } from "../keys/signing-key.ts";
import { checkSignature } from "./verify-token.ts";

interface Vector {
  tcId: number;
  comment: string;
  jws: unknown;
  result: "valid" | "invalid" | "acceptable";
}

interface Group {
  comment?: string;
  public?: JWK & { keys?: JWK[] };
  private?: JWK & { keys?: JWK[] };
  tests: Vector[];
}

/** The header alone, read as leniently as anybody might. */
function headerOf(jws: string): Record<string, unknown> {
  try {
    return JSON.parse(Buffer.from(jws.split(".")[0] ?? "", "base64url").toString("utf8")) as Record<
      string,
      unknown
    >;
  } catch {
    return {};
  }
}

/**
 * Our verifier without what is about access tokens: canonical segments, then the key's own algorithm. A header
 * without our `typ` passes here, so that the vectors reach the signature.
 */
function signatureVerdict(jws: string, jwk: JWK): string {
  const algorithm = jwk.alg as Algorithm;
  if (algorithm !== "EdDSA" && algorithm !== "ES256") return "algorithm";
  if (jwk.use !== undefined && jwk.use !== "sig") return "use";
  let publicKey: ReturnType<typeof importPublicKey>;
  try {
    const { d: _private, ...publicJwk } = jwk;
    publicKey = importPublicKey(publicJwk as JWK, algorithm);
  } catch {
    return "key";
  }
  const parsed = parseCompactJws(jws);
  if (parsed === "length" || parsed === "form") {
    // Payloads that are not JSON are what most vectors have; whether the segments are canonical still counts.
    const segments = jws.split(".");
    const isCanonical = segments.every(
      (segment) => Buffer.from(segment, "base64url").toString("base64url") === segment,
    );
    if (segments.length !== 3 || !isCanonical) return "form";
  }
  const { alg = "" } = headerOf(jws) as { alg?: string };
  const text = { header: { alg, typ: "", kid: "" }, payload: {}, text: jws };
  return checkSignature(text, { algorithm, publicKey }) ?? "accepted";
}

describe.skipIf(!hasCorpus("wycheproof"))("Wycheproof (skipped where there are no vectors)", () => {
  const suites = hasCorpus("wycheproof")
    ? (["json_web_signature_test.json", "json_web_key_test.json"] as const).map((file) =>
        readCorpus<{ testGroups: Group[] }>("wycheproof", file),
      )
    : [];
  const cases = suites.flatMap(({ testGroups }) =>
    testGroups.flatMap((group) =>
      group.tests.map((vector) => ({
        ...vector,
        key: group.public ?? group.private ?? {},
        text: String(vector.jws),
      })),
    ),
  );

  test("all 427 vectors are here", () => {
    expect(cases).toHaveLength(427);
  });

  test("no vector whatever passes for an access token: none is of our type", () => {
    const accepted = cases.filter(({ text }) => {
      const parsed = parseCompactJws(text);
      return typeof parsed !== "string" && parsed.header.typ === "at+jwt";
    });
    expect(accepted).toEqual([]);
  });

  test("every vector of a supported algorithm gets its expected verdict", async () => {
    const ours = cases.filter(({ key }) => key.alg === "ES256" || key.alg === "EdDSA");
    expect(ours.length).toBeGreaterThan(35);
    for (const { tcId, comment, text, result, key } of ours) {
      const verdict = signatureVerdict(text, key);
      expect(verdict === "accepted", `${tcId} ${comment}: ${verdict}`).toBe(result === "valid");
    }
  });

  test("deviations: what they call valid and we refuse is refused for its algorithm, and only for that", async () => {
    // HS*: a secret shared with every verifier could sign. RS*, PS*: one algorithm at a time, and theirs are three to
    // six times longer. ES521: no name of an algorithm (RFC 7518 §3.1 has ES512), and not P-256.
    const reasons = [
      "HS256",
      "HS384",
      "HS512",
      "RS256",
      "RS384",
      "RS512",
      "PS256",
      "PS384",
      "PS512",
      "ES521",
    ];
    const deviations = new Map<string, number>();
    for (const { text, result, key } of cases) {
      const keySet = "keys" in key;
      if (result === "invalid" || keySet) continue;
      const verdict = signatureVerdict(text, key);
      if (verdict === "accepted") continue;
      expect(verdict).toBe("algorithm");
      deviations.set(String(key.alg), (deviations.get(String(key.alg)) ?? 0) + 1);
    }
    expect([...deviations.keys()].sort()).toEqual([...reasons].filter((name) => deviations.has(name)).sort());
    expect(deviations.size).toBeGreaterThan(5);
  });
});

describe.skipIf(!hasCorpus("jose-cookbook"))("RFC 7520 (skipped where there are no vectors)", () => {
  const files = hasCorpus("jose-cookbook")
    ? readdirSync(corpusFolder("jose-cookbook")).filter((name) => name.endsWith(".json"))
    : [];

  // All eight deviate: 4.1 RS256, 4.2 PS384, 4.3 ES512 and 4.4 HS256 are algorithms that no key of ours has;
  // 4.5 detaches the payload; 4.6, 4.7 and 4.8 have no compact form.
  test.each(files)("%s is refused: an unsupported algorithm or form", (file) => {
    const example = readCorpus<{ input: { key: JWK | JWK[] }; output: { compact?: string } }>(
      "jose-cookbook",
      file,
    );
    const [key] = [example.input.key].flat();
    const text = example.output.compact ?? "";
    expect(parseCompactJws(text)).toBeTypeOf("string");
    expect(() => importPublicKey(key ?? {}, "ES256")).toThrow();
    expect(() => importPublicKey(key ?? {}, "EdDSA")).toThrow();
  });
});
