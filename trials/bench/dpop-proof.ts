/**
 * What a DPoP proof costs the gateway, in CPU for each call: the whole check, with a memory of proofs as without Redis,
 * beside the bare signature verification of the same bytes by node:crypto. Rounds of both, one after the other.
 *
 *   npm run trial -- dpop-proof
 */
import { createHash, generateKeyPairSync, type KeyObject, randomUUID, sign, verify } from "node:crypto";
import { DpopProofs } from "#gateway/edge/proofs/dpop-proof.ts";
import { UsedProofs } from "#gateway/edge/proofs/used-proofs.ts";
import { quantile, startCpu } from "./support/workbench.ts";

const ROUNDS = 9;
const PROOFS = 5_000;
const URL_OF_CALL = "https://gateway.example.com/payments";
/** As long as an access token. */
const TOKEN = "t".repeat(700);

const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
const KEYS = {
  ES256: generateKeyPairSync("ec", { namedCurve: "P-256" }),
  EdDSA: generateKeyPairSync("ed25519"),
};

for (const alg of ["ES256", "EdDSA"] as const) {
  const { publicKey, privateKey } = KEYS[alg];
  const digest = alg === "ES256" ? "sha256" : null;
  const header = encode({ typ: "dpop+jwt", alg, jwk: publicKey.export({ format: "jwk" }) });
  const ath = createHash("sha256").update(TOKEN).digest("base64url");
  const proofs = new DpopProofs(() => Date.now());
  const costs: Record<"proof" | "signature", number[]> = { proof: [], signature: [] };
  for (let round = -1; round < ROUNDS; round += 1) {
    // As many as one user may use, of which each round has its own memory.
    const used = new UsedProofs({
      redis: undefined,
      nowMs: () => performance.now(),
      wallMs: () => Date.now(),
    });
    const iat = Math.floor(Date.now() / 1_000);
    const made = Array.from({ length: PROOFS }, () => {
      const claims = { jti: randomUUID(), htm: "POST", htu: URL_OF_CALL, iat, ath, nonce: used.nonce };
      const input = `${header}.${encode(claims)}`;
      return { input, signature: sign(digest, Buffer.from(input), ieee(privateKey)) };
    });
    // A request brings its proof as a new string.
    const texts = made.map(({ input, signature }) =>
      Buffer.from(`${input}.${signature.toString("base64url")}`),
    );
    const first = proofs.check(String(texts[0]), { method: "POST", url: URL_OF_CALL, token: undefined });
    if (typeof first === "string") throw new Error(`the proof is refused: ${first}`);
    const token = { text: TOKEN, jkt: first.jkt };
    const ofProofs = measure(texts, (text) => {
      const proof = proofs.check(text.toString("latin1"), { method: "POST", url: URL_OF_CALL, token });
      return typeof proof !== "string" && used.use(proof, "user") === "first";
    });
    const ofSignatures = measure(made, ({ input, signature }) =>
      verify(digest, Buffer.from(input), ieee(publicKey), signature),
    );
    if (round < 0) continue; // the first round warms up
    costs.proof.push(ofProofs);
    costs.signature.push(ofSignatures);
  }
  const [proofUs, signatureUs] = [quantile(costs.proof, 0.5), quantile(costs.signature, 0.5)];
  console.log(
    `${alg}: a proof ${proofUs.toFixed(1)} µs CPU (aim: at most 150), its bare verification ${signatureUs.toFixed(1)} µs, ` +
      `ratio ${(proofUs / signatureUs).toFixed(2)} (medians of ${ROUNDS} rounds of ${PROOFS})`,
  );
}

function ieee(key: KeyObject) {
  return { key, dsaEncoding: "ieee-p1363" } as const;
}

/** CPU of one, in microseconds. */
function measure<T>(items: readonly T[], isValid: (item: T) => boolean): number {
  const cpu = startCpu();
  for (const item of items) if (!isValid(item)) throw new Error("refused");
  return cpu() / items.length;
}
