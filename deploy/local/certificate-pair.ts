import "reflect-metadata"; // the x509 library does not load without it
import { createPrivateKey, randomBytes, webcrypto, X509Certificate } from "node:crypto";
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  type Extension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509CertificateGenerator,
} from "@peculiar/x509";

/** How long certificates made here live. */
export const CERTIFICATE_LIFE_DAYS = { authority: 3650, leaf: 30 };

const DAY_MS = 86_400_000;
/** Clocks of containers and their host differ. */
const BACKDATED_MS = 60_000;
const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const AUTHORITY_NAME = "CN=Gatehouse local CA";

/** A certificate and its private key (PKCS #8), both PEM. */
export interface Pair {
  certificate: string;
  key: string;
}

/** Makes a certificate authority that may sign leaves only. */
export async function createAuthority(now: Date): Promise<Pair> {
  const keys = await webcrypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
  return certify({
    subject: AUTHORITY_NAME,
    issuer: AUTHORITY_NAME,
    keys,
    signingKey: keys.privateKey,
    now,
    lifeDays: CERTIFICATE_LIFE_DAYS.authority,
    extensions: [
      new BasicConstraintsExtension(true, 0, true),
      new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
}

/**
 * Issues a certificate for both ends of mutual TLS between processes of this machine.
 *
 * @param dnsNames by which clients other than ours look for its bearer.
 */
export async function issueCertificate(
  authority: Pair,
  identity: string,
  now: Date,
  dnsNames: readonly string[] = [],
): Promise<Pair> {
  const keys = await webcrypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
  const issuer = new X509Certificate(authority.certificate);
  const der = createPrivateKey(authority.key).export({ type: "pkcs8", format: "der" });
  const signingKey = await webcrypto.subtle.importKey("pkcs8", der, ALGORITHM, false, ["sign"]);
  const spki = issuer.publicKey.export({ type: "spki", format: "der" });
  const issuerKey = await webcrypto.subtle.importKey("spki", spki, ALGORITHM, true, ["verify"]);
  return certify({
    subject: `CN=${identity}`,
    issuer: AUTHORITY_NAME,
    keys,
    signingKey,
    now,
    lifeDays: CERTIFICATE_LIFE_DAYS.leaf,
    extensions: [
      new BasicConstraintsExtension(false, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
      new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth, ExtendedKeyUsage.clientAuth]),
      new SubjectAlternativeNameExtension([
        { type: "url", value: identityUri(identity) },
        { type: "dns", value: "localhost" },
        { type: "ip", value: "127.0.0.1" },
        ...dnsNames.map((value) => ({ type: "dns", value }) as const),
      ]),
      await AuthorityKeyIdentifierExtension.create(issuerKey),
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
}

/** True if the pair is an authority of ours, its key matches, and it lives past `until`. */
export function describesAuthority(pair: Pair, until: Date): boolean {
  return matches(pair, (certificate) => certificate.ca && certificate.validToDate > until);
}

/** True if the pair serves `identity` from `from` past `until`, and the authority signed it. */
export function serves(
  pair: Pair,
  { identity, authority, from, until }: { identity: string; authority: Pair; from: Date; until: Date },
): boolean {
  const { publicKey } = new X509Certificate(authority.certificate);
  return matches(
    pair,
    (certificate) =>
      certificate.verify(publicKey) &&
      certificate.validFromDate <= from &&
      certificate.validToDate > until &&
      certificate.subjectAltName?.split(", ").includes(`URI:${identityUri(identity)}`) === true,
  );
}

function identityUri(identity: string): string {
  return `spiffe://gatehouse/${identity}`;
}

/** Whatever cannot be read as a certificate or a key is no match. */
function matches(pair: Pair, sound: (certificate: X509Certificate) => boolean): boolean {
  try {
    const certificate = new X509Certificate(pair.certificate);
    return certificate.checkPrivateKey(createPrivateKey(pair.key)) && sound(certificate);
  } catch {
    return false;
  }
}

async function certify(request: {
  subject: string;
  issuer: string;
  keys: webcrypto.CryptoKeyPair;
  signingKey: webcrypto.CryptoKey;
  now: Date;
  lifeDays: number;
  extensions: Extension[];
}): Promise<Pair> {
  const serial = randomBytes(16);
  serial[0] = ((serial[0] ?? 0) & 0x7f) | 0x40; // positive and of full length, RFC 5280 §4.1.2.2
  const certificate = await X509CertificateGenerator.create(
    {
      serialNumber: serial.toString("hex"),
      subject: request.subject,
      issuer: request.issuer,
      notBefore: new Date(request.now.getTime() - BACKDATED_MS),
      notAfter: new Date(request.now.getTime() + request.lifeDays * DAY_MS),
      signingAlgorithm: ALGORITHM,
      publicKey: request.keys.publicKey,
      signingKey: request.signingKey,
      extensions: request.extensions,
    },
    webcrypto,
  );
  const der = Buffer.from(await webcrypto.subtle.exportKey("pkcs8", request.keys.privateKey));
  const key = `-----BEGIN PRIVATE KEY-----\n${der.toString("base64").replace(/.{1,64}/g, "$&\n")}-----END PRIVATE KEY-----\n`;
  return { certificate: `${certificate.toString("pem")}\n`, key };
}
