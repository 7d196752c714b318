import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { type ChannelCredentials, experimental, ServerCredentials } from "@grpc/grpc-js";

export interface TlsFiles {
  certFile: string;
  keyFile: string;
  caFile: string;
}

const REFRESH_INTERVAL_MS = 30_000;
const PEM_BEGINNING = "-----BEGIN CERTIFICATE-----";
/** At most 40 characters with the kind, as actor ids in the audit log. */
const PERSON_NAME = /^URI:spiffe:\/\/gatehouse\/(operator|auditor)\/([a-z0-9][a-z0-9._-]{0,30})$/;
/** In the audit log: `operator:ada`. */
export const PERSON = /^(?:operator|auditor):[a-z0-9][a-z0-9._-]{0,30}$/;
const PEOPLE: ReadonlySet<string> = new Set(["operator", "auditor"]);
const SPIFFE_NAME = /^URI:spiffe:\/\/gatehouse\/([a-z0-9-]{1,63})$/;

export function tlsFilesOf(config: {
  TLS_CERT_FILE: string;
  TLS_KEY_FILE: string;
  TLS_CA_FILE: string;
}): TlsFiles {
  return { certFile: config.TLS_CERT_FILE, keyFile: config.TLS_KEY_FILE, caFile: config.TLS_CA_FILE };
}

interface Material {
  certificate: Buffer;
  privateKey: Buffer;
  caCertificate: Buffer;
}

/** @throws if certificate and key do not match, or the authority's file is not whole, as during a replacement. */
function readMaterial(files: TlsFiles): Material {
  const material = {
    certificate: readFileSync(files.certFile),
    privateKey: readFileSync(files.keyFile),
    caCertificate: readFileSync(files.caFile),
  };
  if (!new X509Certificate(material.certificate).checkPrivateKey(createPrivateKey(material.privateKey))) {
    throw new Error(`${files.keyFile} is not the key of ${files.certFile}`);
  }
  if (!areCertificates(material.caCertificate)) throw new Error(`${files.caFile} is not PEM of certificates`);
  return material;
}

/** @returns whether it has at least one certificate, and each is whole. TLS would trust those before the first that is not, and say nothing. */
function areCertificates(pem: Buffer): boolean {
  const [, ...each] = pem.toString().split(PEM_BEGINNING);
  try {
    return each.map((rest) => new X509Certificate(PEM_BEGINNING + rest)).length > 0;
  } catch {
    return false;
  }
}

type CertificateProvider = Parameters<typeof experimental.createCertificateProviderChannelCredentials>[0];
type CaListener = Parameters<CertificateProvider["addCaCertificateListener"]>[0];
type IdentityListener = Parameters<CertificateProvider["addIdentityCertificateListener"]>[0];

/** Unlike grpc-js' file watcher it keeps the last valid certificate while files do not match. */
export class ProcessCertificate implements CertificateProvider {
  readonly #files: TlsFiles;
  readonly #caListeners = new Set<CaListener>();
  readonly #identityListeners = new Set<IdentityListener>();
  readonly #timer: NodeJS.Timeout;
  #material: Material;

  /** @throws if the files are unusable. */
  constructor(files: TlsFiles, onRefreshError: (error: unknown) => void = () => undefined) {
    this.#files = files;
    this.#material = readMaterial(files);
    this.#timer = setInterval(() => this.#refresh(onRefreshError), REFRESH_INTERVAL_MS).unref();
  }

  /** Seconds since the epoch. */
  get endS(): number {
    return Math.floor(new X509Certificate(this.#material.certificate).validToDate.getTime() / 1_000);
  }

  /** PEM. */
  get material(): Readonly<Material> {
    return this.#material;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  addCaCertificateListener(listener: CaListener): void {
    this.#caListeners.add(listener);
    process.nextTick(listener, this.#material);
  }

  removeCaCertificateListener(listener: CaListener): void {
    this.#caListeners.delete(listener);
  }

  addIdentityCertificateListener(listener: IdentityListener): void {
    this.#identityListeners.add(listener);
    process.nextTick(listener, this.#material);
  }

  removeIdentityCertificateListener(listener: IdentityListener): void {
    this.#identityListeners.delete(listener);
  }

  #refresh(onRefreshError: (error: unknown) => void): void {
    try {
      const material = readMaterial(this.#files);
      const isSame =
        material.certificate.equals(this.#material.certificate) &&
        material.privateKey.equals(this.#material.privateKey) &&
        material.caCertificate.equals(this.#material.caCertificate);
      if (isSame) return;
      this.#material = material;
      for (const listener of this.#caListeners) listener(material);
      for (const listener of this.#identityListeners) listener(material);
    } catch (error) {
      onRefreshError(error);
    }
  }
}

class MutualTlsServerCredentials extends ServerCredentials {
  constructor(certificate: ProcessCertificate) {
    super({ requestCert: true, rejectUnauthorized: true, minVersion: "TLSv1.3" }, secureContext(certificate));
    certificate.addIdentityCertificateListener(() =>
      this.updateSecureContextOptions(secureContext(certificate)),
    );
  }

  override _equals(other: ServerCredentials): boolean {
    return this === other;
  }
}

function secureContext(certificate: ProcessCertificate) {
  const { caCertificate, certificate: cert, privateKey } = certificate.material;
  return { ca: caCertificate, cert, key: privateKey, minVersion: "TLSv1.3" as const };
}

export function serverCredentials(certificate: ProcessCertificate): ServerCredentials {
  return new MutualTlsServerCredentials(certificate);
}

/** @param service required in the peer's certificate. The host name is not checked. */
export function channelCredentials(certificate: ProcessCertificate, service: string): ChannelCredentials {
  return experimental.createCertificateProviderChannelCredentials(certificate, certificate, {
    checkServerIdentity: (_host, peer) => {
      const name = spiffeName(peer);
      return name === service
        ? undefined
        : new Error(`expected ${service}, the peer is ${name ?? "unknown"}`);
    },
  });
}

export interface Peer {
  /** A service, `operator` or `auditor`. */
  name: string;
  /** `operator:ada`. Of operators and auditors. */
  person?: string;
}

/** @returns undefined for an unknown name or a missing person. */
export function peerOf(certificate: { subjectaltname?: string | undefined }): Peer | undefined {
  const uri = onlyUri(certificate);
  const [, kind, person] = PERSON_NAME.exec(uri) ?? [];
  if (kind !== undefined) return { name: kind, person: `${kind}:${person}` };
  const name = SPIFFE_NAME.exec(uri)?.[1];
  return name === undefined || PEOPLE.has(name) ? undefined : { name };
}

/** Whether a certificate of a service could have it: `spiffe://gatehouse/<name>`. */
export function isServiceName(name: string): boolean {
  return peerOf({ subjectaltname: `URI:spiffe://gatehouse/${name}` })?.name === name;
}

/** @returns undefined unless there is exactly one URI SAN. */
export function spiffeName(certificate: { subjectaltname?: string | undefined }): string | undefined {
  return SPIFFE_NAME.exec(onlyUri(certificate))?.[1];
}

function onlyUri({ subjectaltname = "" }: { subjectaltname?: string | undefined }): string {
  const uris = subjectaltname.split(", ").filter((entry) => entry.startsWith("URI:"));
  return uris.length === 1 ? (uris[0] ?? "") : "";
}
