import type { FastifyRequest } from "fastify";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import { assertScheme, type PresentedToken } from "#token-client/bearer-token.ts";
import { CallShares, FORGERIES } from "#token-client/call-shares.ts";
import { callerIdOf, type Principal } from "#token-client/principal.ts";
import {
  type DpopProof,
  type DpopProofs,
  PROOF_FAILURES,
  type ProofFailure,
  type ProvenCall,
} from "./proofs/dpop-proof.ts";
import type { ProofUse, UsedProofs } from "./proofs/used-proofs.ts";
import { clientIp } from "./request/caller.ts";
import { ClientCertificates } from "./request/client-certificate.ts";
import { writableState } from "./request/request-state.ts";
import type { IsTrustedProxy } from "./request/trusted-proxies.ts";

/** Only wrong signatures count. */
const SHARES = {
  maxInFlight: Number.POSITIVE_INFINITY,
  maxInFlightPerNetwork: Number.POSITIVE_INFINITY,
  ...FORGERIES,
};

/** Codes of a request for tokens (RFC 9449 §5), and of a call with one (§7.1). */
const REFUSAL = {
  request: { invalid: "invalid_dpop_proof", needsNonce: "use_dpop_nonce" },
  call: { invalid: "token_proof_invalid", needsNonce: "token_proof_needs_nonce" },
} as const;
type Refusal = (typeof REFUSAL)[keyof typeof REFUSAL];

export interface ProofsOfKeysDeps {
  dpopProofs: DpopProofs;
  usedProofs: UsedProofs;
  isTrustedProxy: IsTrustedProxy;
  metrics: Metrics;
}

/** What the caller of a request proves to hold. Answers at once unless Redis is asked. */
export class ProofsOfKeys {
  readonly #dpop: DpopProofs;
  readonly #used: UsedProofs;
  readonly #certificates: ClientCertificates;
  readonly #countRefusal: (reason: ProofFailure | Exclude<ProofUse, "first">) => void;
  readonly #shares = new CallShares({ ...SHARES, nowMs: () => performance.now() });

  constructor({ dpopProofs, usedProofs, isTrustedProxy, metrics }: ProofsOfKeysDeps) {
    this.#dpop = dpopProofs;
    this.#used = usedProofs;
    this.#certificates = new ClientCertificates(isTrustedProxy);
    const refusals = metrics.counter("gatehouse_dpop_refused_total", "DPoP proofs refused, by reason.", [
      "reason",
    ]);
    this.#countRefusal = (reason) => refusals.inc({ reason });
    metrics.gauge(
      "gatehouse_dpop_remembered",
      "DPoP proofs with a nonce of this process, in memory.",
      [],
      (gauge) => gauge.set(usedProofs.size),
    );
  }

  /** Of a request for tokens, which are bound to the key if it has a proof. @throws {DomainError} */
  ofTokenRequest(request: FastifyRequest): Promise<void> | undefined {
    const text = textOf(request);
    if (text === undefined) return undefined;
    const proof = this.#check(request, text, undefined, REFUSAL.request);
    return this.#useOnce(request, proof, undefined);
  }

  /** As `ClientCertificates.thumbprint`. */
  certificateOf(request: FastifyRequest): string {
    return this.#certificates.thumbprint(request);
  }

  /** Of a call with an access token. `useOfCall` remembers the proof that it returns. @throws {DomainError} */
  ofCall(request: FastifyRequest, presented: PresentedToken, principal: Principal): DpopProof | undefined {
    assertScheme(presented, principal);
    const { x5tS256 = "" } = principal.confirmation ?? {};
    if (x5tS256 !== "" && this.#certificates.thumbprint(request) !== x5tS256)
      throw new DomainError(
        "token_invalid",
        "The access token is bound to a client certificate that the call lacks.",
      );
    if (!presented.isDpop) return undefined;
    const text = textOf(request);
    if (text === undefined) throw new DomainError("token_proof_missing");
    const token = { text: presented.text, jkt: principal.confirmation?.jkt ?? "" };
    const proof = this.#check(request, text, token, REFUSAL.call);
    this.#settle(request, proof, this.#used.look(proof), REFUSAL.call);
    return proof;
  }

  /** When the limit of the user has been asked, so that refused calls take no memory. @throws {DomainError} */
  useOfCall(request: FastifyRequest, proof: DpopProof, principal: Principal): Promise<void> | undefined {
    return this.#useOnce(request, proof, callerIdOf(principal));
  }

  #check(request: FastifyRequest, text: string, token: ProvenCall["token"], refusal: Refusal): DpopProof {
    const place = this.#shares.enter(clientIp(request));
    const proof = this.#dpop.check(text, { method: request.method, url: urlOf(request), token });
    if (proof === "signature") place.refused();
    place.leave();
    if (typeof proof !== "string") return proof;
    this.#countRefusal(proof);
    throw new DomainError(refusal.invalid, `The DPoP proof is not valid: ${PROOF_FAILURES[proof]}.`);
  }

  #useOnce(request: FastifyRequest, proof: DpopProof, userId: string | undefined): Promise<void> | undefined {
    const settle = (use: ProofUse) => {
      this.#settle(request, proof, use, userId === undefined ? REFUSAL.request : REFUSAL.call);
      writableState(request).call.proven = { jkt: proof.jkt, x5tS256: "" };
    };
    const use = this.#used.use(proof, userId);
    if (use instanceof Promise) return use.then(settle);
    settle(use);
    return undefined;
  }

  #settle(request: FastifyRequest, proof: DpopProof, use: ProofUse, refusal: Refusal): void {
    this.#offerNonce(request, proof, use);
    if (use !== "first") this.#countRefusal(use);
    if (use === "needs_nonce") throw new DomainError(refusal.needsNonce);
    if (use === "again") throw new DomainError(refusal.invalid, "The DPoP proof was used before.");
  }

  /** Also with an answer, before the nonce of the proof is too old (RFC 9449 §8.2). */
  #offerNonce(request: FastifyRequest, proof: DpopProof, use: ProofUse): void {
    if (use !== "needs_nonce" && proof.nonce === undefined) return;
    const { nonce } = this.#used;
    if (nonce === proof.nonce) return;
    writableState(request).dpopNonce = nonce;
  }
}

/** Node joins two headers by a comma, which no JWS has. */
function textOf({ headers }: FastifyRequest): string | undefined {
  const { dpop } = headers;
  return Array.isArray(dpop) ? dpop.join(",") : dpop;
}

/** Public: of a trusted proxy, the protocol is the one that it was called with. */
function urlOf({ protocol, headers, raw }: FastifyRequest): string {
  const [path = ""] = (raw.url ?? "").split("?", 1);
  return `${protocol}://${headers.host}${path}`;
}
