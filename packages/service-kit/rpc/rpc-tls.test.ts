import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { certificateFiles, ensureCertificates } from "#deploy/local/certificates.ts";
import { ProcessCertificate, peerOf, spiffeName } from "./rpc-tls.ts";

test.each([
  ["URI:spiffe://gatehouse/gateway", "gateway"],
  ["DNS:localhost, URI:spiffe://gatehouse/token-service, IP Address:127.0.0.1", "token-service"],
  ["URI:spiffe://elsewhere/gateway", undefined],
  ["URI:spiffe://gatehouse/gateway/admin", undefined],
  ["URI:spiffe://gatehouse/", undefined],
  ["URI:spiffe://gatehouse/gateway, URI:spiffe://gatehouse/operator", undefined],
  ["DNS:spiffe://gatehouse/gateway", undefined],
  ['URI:"spiffe://gatehouse/gateway, URI:x"', undefined],
  [undefined, undefined],
])("the name in %j is %j", (subjectaltname, expected) => {
  expect(spiffeName({ subjectaltname })).toBe(expected);
});

test.each([
  ["URI:spiffe://gatehouse/gateway", { name: "gateway" }],
  ["URI:spiffe://gatehouse/operator/ada.lovelace", { name: "operator", person: "operator:ada.lovelace" }],
  ["URI:spiffe://gatehouse/auditor/eve", { name: "auditor", person: "auditor:eve" }],
  [
    `URI:spiffe://gatehouse/operator/${"a".repeat(31)}`,
    { name: "operator", person: `operator:${"a".repeat(31)}` },
  ],
  [`URI:spiffe://gatehouse/operator/${"a".repeat(32)}`, undefined],
  ["URI:spiffe://gatehouse/operator", undefined],
  ["URI:spiffe://gatehouse/auditor", undefined],
  ["URI:spiffe://gatehouse/operator/", undefined],
  ["URI:spiffe://gatehouse/operator/-ada", undefined],
  ["URI:spiffe://gatehouse/operator/Ada", undefined],
  ["URI:spiffe://gatehouse/operator/ada/bob", undefined],
  ["URI:spiffe://gatehouse/gateway/ada", undefined],
  ["URI:spiffe://gatehouse/operator/ada, URI:spiffe://gatehouse/operator/bob", undefined],
  [undefined, undefined],
])("the peer in %j is %j", (subjectaltname, expected) => {
  expect(peerOf({ subjectaltname })).toEqual(expected);
});

test.each([
  ["is empty", () => ""],
  ["is cut in its only certificate", (pem: string) => pem.slice(0, -100)],
  ["is cut in its second certificate", (pem: string) => pem + pem.slice(0, 100)],
  ["has another kind of PEM", (pem: string) => pem.replaceAll("CERTIFICATE", "PUBLIC KEY")],
])("the authorities of before stay in use while their file %s", async (_name, spoilt) => {
  const directory = await mkdtemp(join(tmpdir(), "gatehouse-test-tls-"));
  onTestFinished(() => rm(directory, { recursive: true }));
  await ensureCertificates(directory, new Date(), "tester");
  const { certificate: certFile, key: keyFile, authority: caFile } = certificateFiles(directory, "gateway");
  const pem = await readFile(caFile, "utf8");
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  const problems: unknown[] = [];
  const certificate = new ProcessCertificate({ certFile, keyFile, caFile }, (error) => problems.push(error));
  onTestFinished(() => certificate.close());

  await writeFile(caFile, spoilt(pem));
  vi.advanceTimersByTime(30_000);
  expect(certificate.material.caCertificate.toString()).toBe(pem);
  expect(problems).toMatchObject([{ message: `${caFile} is not PEM of certificates` }]);

  await writeFile(caFile, pem + pem);
  vi.advanceTimersByTime(30_000);
  expect(certificate.material.caCertificate.toString()).toBe(pem + pem);
  expect(problems).toHaveLength(1);
});
