import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createAuthority, issueCertificate } from "#deploy/certificate-pair.ts";
import { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";

const DAY_MS = 86_400_000;

type Service = "token-service" | "identity-service";

export interface ConformanceCertificates {
  /** token-service has no name in DNS, as in production. The DNS name `token-service` is that of identity-service. */
  of(service: Service): ProcessCertificate;
  /** Used by the driver. */
  environment: Record<"TLS_CERT_FILE" | "TLS_KEY_FILE" | "TLS_CA_FILE", string>;
  remove(): Promise<void>;
}

export async function createConformanceCertificates(): Promise<ConformanceCertificates> {
  const directory = await mkdtemp(join(tmpdir(), "gatehouse-conformance-"));
  // Valid also where a wall clock jumps back.
  const now = new Date(Date.now() - DAY_MS);
  const authority = await createAuthority(now);
  const caFile = join(directory, "ca.crt");
  await writeFile(caFile, authority.certificate);
  const filesOf = (name: string) => ({
    certFile: join(directory, `${name}.crt`),
    keyFile: join(directory, `${name}.key`),
    caFile,
  });
  for (const name of ["token-service", "identity-service", "payments-service"]) {
    const dnsNames = name === "identity-service" ? ["token-service"] : [];
    const { certificate, key } = await issueCertificate(authority, name, now, dnsNames);
    await writeFile(filesOf(name).certFile, certificate);
    await writeFile(filesOf(name).keyFile, key, { mode: 0o600 });
  }
  const made: ProcessCertificate[] = [];
  const own = filesOf("payments-service");
  return {
    of(service) {
      const certificate = new ProcessCertificate(filesOf(service));
      made.push(certificate);
      return certificate;
    },
    environment: { TLS_CERT_FILE: own.certFile, TLS_KEY_FILE: own.keyFile, TLS_CA_FILE: own.caFile },
    async remove() {
      for (const certificate of made) certificate.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
