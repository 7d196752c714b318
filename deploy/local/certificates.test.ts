import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, createServer, type TLSSocket } from "node:tls";
import { afterEach, beforeEach, expect, test } from "vitest";
import { certificateFiles, ensureCertificates, IDENTITIES, localPerson } from "./certificates.ts";

const NOW = new Date();
const days = (count: number) => new Date(NOW.getTime() + count * 86_400_000);
let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "gatehouse certificates "));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const path = (name: string) => join(directory, name);
const certificate = async (name: string) => new X509Certificate(await readFile(path(`${name}.crt`)));

test("every identity gets a certificate of the authority, in files that only the owner may read", async () => {
  expect(await ensureCertificates(directory, NOW)).toEqual(["ca", ...IDENTITIES]);

  const authority = await certificate("ca");
  expect(authority.ca).toBe(true);
  expect((await stat(directory)).mode & 0o777).toBe(0o700);
  for (const name of IDENTITIES) {
    const leaf = await certificate(name);
    expect(leaf.checkIssued(authority) && leaf.verify(authority.publicKey)).toBe(true);
    expect(leaf.ca).toBe(false);
    const person = name === "operator" || name === "auditor" ? `/${localPerson()}` : "";
    expect(leaf.subjectAltName).toBe(
      `URI:spiffe://gatehouse/${name}${person}, DNS:localhost, IP Address:127.0.0.1`,
    );
    expect(leaf.keyUsage).toEqual(["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"]);
    for (const file of [`${name}.crt`, `${name}.key`])
      expect((await stat(path(file))).mode & 0o777).toBe(0o600);
  }
});

test("verifiers get certificates that are renewed with the others, and none of them is a file of our own", async () => {
  const names = ["my-shop", "my-shop", "ca", "gateway", "../escape", "operator", "", "My-Shop"];
  expect(await ensureCertificates(directory, NOW, "ada", names)).toEqual(["ca", ...IDENTITIES, "my-shop"]);
  expect((await certificate("my-shop")).subjectAltName).toMatch(/^URI:spiffe:\/\/gatehouse\/my-shop, /);
  expect((await certificate("ca")).ca).toBe(true);
  expect(await ensureCertificates(directory, days(19), "ada", names)).toEqual([]);
  expect(await ensureCertificates(directory, days(21), "ada", names)).toEqual([...IDENTITIES, "my-shop"]);
  expect((await readdir(directory)).length).toBe(2 * (IDENTITIES.length + 2));
});

test.each([
  ["ada", "ada"],
  ["Ada Lovelace", "ada-lovelace"],
  ["-_.x", "x"],
  ["ä", "local"],
  ["a".repeat(40), "a".repeat(31)],
])("the user %j is named %j in a certificate", (user, name) => {
  expect(localPerson(user)).toBe(name);
});

test("certificates of operators and auditors without a name, or with another name, are replaced", async () => {
  await ensureCertificates(directory, NOW, "ada");
  expect(await ensureCertificates(directory, NOW, "bob")).toEqual(["operator", "auditor"]);
});

test("valid certificates are kept, also on their last day", async () => {
  await ensureCertificates(directory, NOW);
  expect(await ensureCertificates(directory, days(19))).toEqual([]);
});

test("leaves with less than a third of their life left are replaced, the authority is kept", async () => {
  await ensureCertificates(directory, NOW);
  expect(await ensureCertificates(directory, days(21))).toEqual([...IDENTITIES]);
});

test("an authority that would expire before its leaves is replaced", async () => {
  await ensureCertificates(directory, NOW);
  expect(await ensureCertificates(directory, days(3630))).toEqual(["ca", ...IDENTITIES]);
});

test("leaves are replaced after the clock was set back", async () => {
  await ensureCertificates(directory, NOW);
  expect(await ensureCertificates(directory, days(-1))).toEqual([...IDENTITIES]);
});

test.each([
  { broken: "gateway.key", by: "rubbish", made: ["gateway"] },
  { broken: "gateway.crt", by: "", made: ["gateway"] },
  { broken: "gateway.key", by: "another key", made: ["gateway"] },
  { broken: "operator.crt", by: "another identity", made: ["operator"] },
  { broken: "ca.key", by: "rubbish", made: ["ca", ...IDENTITIES] },
  { broken: "ca.crt", by: "no authority", made: ["ca", ...IDENTITIES] },
])("$broken replaced by $by: $made are created again", async ({ broken, by, made }) => {
  await ensureCertificates(directory, NOW);
  const other = {
    "another key": "audit-service.key",
    "another identity": "gateway.crt",
    "no authority": "gateway.crt",
  };
  const source = Object.entries(other).find(([name]) => name === by)?.[1];
  await writeFile(path(broken), source ? await readFile(path(source)) : by);

  expect(await ensureCertificates(directory, NOW)).toEqual(made);
  expect(await ensureCertificates(directory, NOW)).toEqual([]);
});

test("two processes use mutual TLS 1.3 and see each other's identity", async () => {
  await ensureCertificates(directory, NOW);
  const server = createServer({
    ...(await credentials("token-service")),
    requestCert: true,
    minVersion: "TLSv1.3",
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    const { port } = server.address() as AddressInfo;
    const accepted = once(server, "secureConnection") as Promise<[TLSSocket]>;
    const client = connect({ ...(await credentials("gateway")), host: "127.0.0.1", port });
    await once(client, "secureConnect");
    const [peer] = await accepted;

    expect(client.authorized && peer.authorized).toBe(true);
    expect(peer.getPeerCertificate().subjectaltname).toContain("URI:spiffe://gatehouse/gateway");
    expect(client.getPeerCertificate().subjectaltname).toContain("URI:spiffe://gatehouse/token-service");
    client.destroy();
  } finally {
    server.close();
  }
});

test("a certificate of another authority is refused", async () => {
  await ensureCertificates(directory, NOW);
  const trusted = await credentials("token-service");
  await rm(path("ca.crt"));
  await ensureCertificates(directory, NOW);
  const stranger = await credentials("gateway");

  const server = createServer({ ...trusted, requestCert: true, rejectUnauthorized: false });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    const { port } = server.address() as AddressInfo;
    const accepted = once(server, "secureConnection") as Promise<[TLSSocket]>;
    const client = connect({ ...stranger, ca: trusted.ca, host: "127.0.0.1", port });
    const [peer] = await accepted;
    expect(peer.authorized).toBe(false);
    client.destroy();
  } finally {
    server.close();
  }
});

async function credentials(name: string) {
  const files = certificateFiles(directory, name);
  const [cert, key, ca] = await Promise.all([
    readFile(files.certificate),
    readFile(files.key),
    readFile(files.authority),
  ]);
  return { cert, key, ca };
}
