import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { readPrivateFile } from "#kit/config/secret-file.ts";
import { peerOf, type TlsFiles } from "#kit/rpc/rpc-tls.ts";
import { type Finding, failed, ok, reasonOf, warning } from "./finding.ts";

/** As the alert GatehouseCertificateEnds: a ticket, and a page. */
const SOON_MS = 7 * 86_400_000;
const NOW_MS = 86_400_000;
const PEM = /-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----/gs;
/** Extended key usage, RFC 5280 §4.2.1.12. */
const SERVER_AUTH = "1.3.6.1.5.5.7.3.1";
const CLIENT_AUTH = "1.3.6.1.5.5.7.3.2";
const RENEW = "Renew it: docs/operations/rotate.md, Certificates. npm start renews its own when it starts";

export interface CertificateCheck {
  subject: string;
  files: TlsFiles;
  /** The service that the certificate must name. Undefined: an operator or auditor. */
  service: string | undefined;
  nowMs: number;
}

/** Key, chain, validity and names. */
export function checkCertificate({ subject, files, service, nowMs }: CertificateCheck): Finding[] {
  const certificates = readCertificates(subject, files.certFile);
  const authorities = readCertificates(subject, files.caFile);
  const key = readPrivateFile(files.keyFile);
  const found = [...certificates.problems, ...authorities.problems];
  if (key.problem !== undefined) {
    found.push(failed("permission", files.keyFile, key.problem, `chmod 600 ${files.keyFile}`));
  }
  const [leaf, ...intermediates] = certificates.read;
  if (leaf === undefined) return found;
  if (key.bytes !== undefined && !isKeyOf(leaf, key.bytes)) {
    const action = "Put the certificate and the key of one request there";
    found.push(
      failed("certificate", subject, `${files.keyFile} is not the key of ${files.certFile}`, action),
    );
  }
  if (authorities.read.length > 0) {
    const issuer = issuerOf(leaf, intermediates, authorities.read, nowMs);
    if (issuer !== undefined)
      found.push(failed("certificate", subject, `${files.certFile} ${issuer}`, RENEW));
  }
  found.push(...validityProblems(subject, files.certFile, leaf, nowMs));
  found.push(...nameProblems(subject, files.certFile, leaf, service));
  if (found.length > 0) return found;
  return [ok("certificate", subject, `${nameOf(leaf)}, until ${dayOf(leaf.validToDate)}`)];
}

/** The authorities in a file: whether they are valid, and for how long. */
export function checkAuthorities(path: string, nowMs: number): Finding[] {
  const { read, problems } = readCertificates(path, path);
  const found = [...problems, ...read.flatMap((each) => validityProblems(path, path, each, nowMs))];
  if (found.length > 0) return found;
  const first = read.map(({ validToDate }) => validToDate).toSorted((a, b) => a.getTime() - b.getTime())[0];
  return [ok("certificate", path, `authority, until ${dayOf(first ?? new Date(0))}`)];
}

/** What a process shows. @returns undefined if it is sound. */
export function validityProblems(
  subject: string,
  what: string,
  certificate: X509Certificate,
  nowMs: number,
): Finding[] {
  const { validFromDate, validToDate } = certificate;
  const leftMs = validToDate.getTime() - nowMs;
  if (leftMs <= 0) {
    return [failed("certificate", subject, `${what} expired on ${dayOf(validToDate)}`, RENEW)];
  }
  if (validFromDate.getTime() > nowMs) {
    const action = "Check this machine's clock and the authority's";
    return [failed("certificate", subject, `${what} is valid from ${dayOf(validFromDate)} only`, action)];
  }
  if (leftMs >= SOON_MS) return [];
  const text = `${what} expires in ${Math.floor(leftMs / 3_600_000)} h`;
  return [(leftMs < NOW_MS ? failed : warning)("certificate", subject, text, RENEW)];
}

function readCertificates(subject: string, path: string): { read: X509Certificate[]; problems: Finding[] } {
  const refuse = (problem: string) => {
    const action = "Put a certificate (PEM) there, or correct the variable";
    return { read: [], problems: [failed("certificate", subject, `${path} ${problem}`, action)] };
  };
  try {
    const texts = readFileSync(path, "utf8").match(PEM) ?? [];
    if (texts.length === 0) return refuse("has no certificate");
    return { read: texts.map((text) => new X509Certificate(text)), problems: [] };
  } catch (error) {
    return refuse(`cannot be read (${reasonOf(error)})`);
  }
}

function isKeyOf(certificate: X509Certificate, key: Buffer): boolean {
  try {
    return certificate.checkPrivateKey(createPrivateKey(key));
  } catch {
    return false;
  }
}

/** @returns what is wrong. */
function issuerOf(
  leaf: X509Certificate,
  intermediates: readonly X509Certificate[],
  authorities: readonly X509Certificate[],
  nowMs: number,
): string | undefined {
  let current = leaf;
  for (let step = 0; step <= intermediates.length; step += 1) {
    const isIssuer = (issuer: X509Certificate) =>
      current.checkIssued(issuer) && current.verify(issuer.publicKey);
    const authority = authorities.find(isIssuer);
    if (authority !== undefined) {
      return authority.validToDate.getTime() <= nowMs
        ? "was issued by an authority that has expired"
        : undefined;
    }
    const next = intermediates.find(isIssuer);
    if (next === undefined) break;
    current = next;
  }
  return "was not issued by the authority in TLS_CA_FILE";
}

function nameProblems(
  subject: string,
  path: string,
  leaf: X509Certificate,
  service: string | undefined,
): Finding[] {
  const found: Finding[] = [];
  const peer = peerOf({ subjectaltname: leaf.subjectAltName });
  const wanted = service ?? "an operator or auditor with a name";
  const isWanted = service === undefined ? peer?.person !== undefined : peer?.name === service;
  if (!isWanted) {
    const action = `Issue it with the URI spiffe://gatehouse/${service ?? "operator/<name>"}`;
    found.push(failed("certificate", subject, `${path} is of ${nameOf(leaf)}, not of ${wanted}`, action));
  }
  const usages: readonly string[] | undefined = leaf.keyUsage;
  const missing = [
    ...(service === undefined ? [] : [["server authentication", SERVER_AUTH] as const]),
    ["client authentication", CLIENT_AUTH] as const,
  ].filter(([, usage]) => usages !== undefined && !usages.includes(usage));
  for (const [name] of missing) {
    const action = "Issue it with both extended key usages";
    found.push(failed("certificate", subject, `${path} is not for ${name}`, action));
  }
  return found;
}

export function nameOf({ subjectAltName }: X509Certificate): string {
  const peer = peerOf({ subjectaltname: subjectAltName });
  return peer?.person ?? peer?.name ?? "nobody that Gatehouse knows";
}

const dayOf = (date: Date) => date.toISOString().slice(0, 16).replace("T", " ");
