import { hash, X509Certificate } from "node:crypto";
import type { FastifyRequest } from "fastify";
import { boundedCache } from "#kit/values/bounded-cache.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { IsTrustedProxy } from "./trusted-proxies.ts";

/** Each has about 2 KiB. */
const MAX_CERTIFICATES = 2_000;
const MAX_CHARACTERS = 8_192;
/** An `sf-binary` (RFC 8941 §3.3.5). Two headers are joined by a comma, which it does not have. */
const BYTE_SEQUENCE = /^:([A-Za-z0-9+/]+={0,2}):$/;

/** The certificate that the client has shown to a trusted proxy (RFC 9440 §2.2). */
export class ClientCertificates {
  readonly #isTrustedProxy: IsTrustedProxy;
  /** Keyed by the text of the header. */
  readonly #thumbprints = boundedCache<string, string>(MAX_CERTIFICATES);

  constructor(isTrustedProxy: IsTrustedProxy) {
    this.#isTrustedProxy = isTrustedProxy;
  }

  /**
   * SHA-256 of its DER, in base64url (RFC 8705 §3.1). Empty without one, and from any other peer.
   * @throws {DomainError} `bad_request` for what a trusted proxy should not send.
   */
  thumbprint({ headers, socket }: FastifyRequest): string {
    const header = headers["client-cert"];
    if (header === undefined || !this.#isTrustedProxy(socket.remoteAddress)) return "";
    const text = String(header);
    const known = this.#thumbprints.get(text);
    if (known !== undefined) return known;
    const der = text.length > MAX_CHARACTERS ? undefined : derIn(text);
    if (der === undefined) throw new DomainError("bad_request", "Client-Cert is not one certificate.");
    const thumbprint = hash("sha256", der, "base64url");
    this.#thumbprints.set(text, thumbprint);
    return thumbprint;
  }
}

/** Undefined unless it is the one writing of one certificate. */
function derIn(text: string): Buffer | undefined {
  const [, base64] = BYTE_SEQUENCE.exec(text) ?? [];
  if (base64 === undefined) return undefined;
  const der = Buffer.from(base64, "base64");
  if (der.toString("base64") !== base64) return undefined;
  try {
    return new X509Certificate(der).raw.equals(der) ? der : undefined;
  } catch {
    return undefined;
  }
}
