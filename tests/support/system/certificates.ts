import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { certificateFiles, ensureCertificates, type Identity } from "#deploy/local/certificates.ts";
import { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";

export interface TestCertificates {
  /** The certificate of a process of this name. */
  of(name: Identity): ProcessCertificate;
  /** As configuration keys. */
  environmentOf(name: Identity): { TLS_CERT_FILE: string; TLS_KEY_FILE: string; TLS_CA_FILE: string };
  remove(): Promise<void>;
}

/** A private CA of its own with a certificate for every service. */
export async function createTestCertificates(): Promise<TestCertificates> {
  const directory = await mkdtemp(join(tmpdir(), "gatehouse-test-tls-"));
  await ensureCertificates(directory, new Date(), "tester");
  const made: ProcessCertificate[] = [];
  return {
    of(name) {
      const { certificate: certFile, key: keyFile, authority: caFile } = certificateFiles(directory, name);
      const certificate = new ProcessCertificate({ certFile, keyFile, caFile });
      made.push(certificate);
      return certificate;
    },
    environmentOf(name) {
      const files = certificateFiles(directory, name);
      return { TLS_CERT_FILE: files.certificate, TLS_KEY_FILE: files.key, TLS_CA_FILE: files.authority };
    },
    async remove() {
      for (const certificate of made) certificate.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
