import { createPrivateKey, KeyObject, webcrypto, X509Certificate } from "node:crypto";
import type * as X509 from "@peculiar/x509";

export const CERTIFICATE_LIFE_DAYS = { authority: 3650, leaf: 30 };

const DAY_MS = 86_400_000;
/** Clocks of containers and their host differ. */
const BACKDATED_MS = 60_000;
const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const AUTHORITY_NAME = "CN=Gatehouse local CA";

/** PEM, with the private key in PKCS #8. */
export interface Pair {
  certificate: string;
  key: string;
}

/** Only by who makes certificates: it has 180 modules. */
async function loadX509(): Promise<typeof X509> {
  await import("reflect-metadata"); // Required by the library.
  return import("@peculiar/x509");
}

/** The authority can sign leaf certificates only. */
export async function createAuthority(now: Date): Promise<Pair> {
  const x509 = await loadX509();
  const keys = await createKeys();
  const extensions = [
    new x509.BasicConstraintsExtension(true, 0, true),
    new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
  ];
  const lifeDays = CERTIFICATE_LIFE_DAYS.authority;
  return certify(AUTHORITY_NAME, keys, { signingKey: keys.privateKey, now, lifeDays, extensions });
}

/** Issues a certificate for both ends of mutual TLS on this machine. @param dnsNames for external clients. */
export async function issueCertificate(
  authority: Pair,
  identity: string,
  now: Date,
  dnsNames: readonly string[] = [],
): Promise<Pair> {
  const x509 = await loadX509();
  const signingKey = createPrivateKey(authority.key).toCryptoKey(ALGORITHM, false, ["sign"]);
  const { serverAuth, clientAuth } = x509.ExtendedKeyUsage;
  const extensions = [
    new x509.BasicConstraintsExtension(false, undefined, true),
    new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
    new x509.ExtendedKeyUsageExtension([serverAuth, clientAuth]),
    new x509.SubjectAlternativeNameExtension([
      { type: "url", value: identityUri(identity) },
      { type: "dns", value: "localhost" },
      { type: "ip", value: "127.0.0.1" },
      ...dnsNames.map((value) => ({ type: "dns", value }) as const),
    ]),
    await x509.AuthorityKeyIdentifierExtension.create(new x509.X509Certificate(authority.certificate)),
  ];
  const lifeDays = CERTIFICATE_LIFE_DAYS.leaf;
  return certify(`CN=${identity}`, await createKeys(), { signingKey, now, lifeDays, extensions });
}

export interface CertificateGoal {
  /** An authority if undefined. */
  identity?: string;
  authority: Pair;
  from?: Date;
  until: Date;
}

/** False for unreadable files, wrong keys and other certificates. */
export function isSound(pair: Pair, { identity, authority, from, until }: CertificateGoal): boolean {
  try {
    const certificate = new X509Certificate(pair.certificate);
    const names = certificate.subjectAltName?.split(", ") ?? [];
    return (
      certificate.checkPrivateKey(createPrivateKey(pair.key)) &&
      certificate.verify(new X509Certificate(authority.certificate).publicKey) &&
      (from === undefined || certificate.validFromDate <= from) &&
      certificate.validToDate > until &&
      (identity === undefined ? certificate.ca : names.includes(`URI:${identityUri(identity)}`))
    );
  } catch {
    return false;
  }
}

function identityUri(identity: string): string {
  return `spiffe://gatehouse/${identity}`;
}

function createKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
}

async function certify(
  subject: string,
  { publicKey, privateKey }: webcrypto.CryptoKeyPair,
  by: { signingKey: webcrypto.CryptoKey; now: Date; lifeDays: number; extensions: X509.Extension[] },
): Promise<Pair> {
  const x509 = await loadX509();
  const certificate = await x509.X509CertificateGenerator.create(
    {
      subject,
      issuer: AUTHORITY_NAME,
      notBefore: new Date(by.now.getTime() - BACKDATED_MS),
      notAfter: new Date(by.now.getTime() + by.lifeDays * DAY_MS),
      signingAlgorithm: ALGORITHM,
      publicKey,
      signingKey: by.signingKey,
      extensions: [...by.extensions, await x509.SubjectKeyIdentifierExtension.create(publicKey)],
    },
    webcrypto,
  );
  const key = KeyObject.from(privateKey).export({ type: "pkcs8", format: "pem" }).toString();
  return { certificate: `${certificate.toString("pem")}\n`, key };
}
