import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createAuthority, issueCertificate, type Pair } from "#deploy/certificate-pair.ts";
import { checkAuthorities, checkCertificate } from "./certificates.ts";

const DAY_MS = 86_400_000;
const NOW = new Date("2026-11-23T12:00:00Z");
const later = (days: number) => new Date(NOW.getTime() + days * DAY_MS);

let folder: string;
let authority: Pair;
let other: Pair;
let gateway: Pair;
const file = (name: string) => join(folder, name);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "gatehouse-doctor-"));
  [authority, other] = await Promise.all([createAuthority(NOW), createAuthority(NOW)]);
  gateway = await issueCertificate(authority, "gateway", NOW);
});
afterAll(() => rmSync(folder, { recursive: true }));

beforeEach(() => put(gateway));

function put(pair: Pair, ca = authority): void {
  writeFileSync(file("tls.crt"), pair.certificate);
  writeFileSync(file("tls.key"), pair.key, { mode: 0o600 });
  writeFileSync(file("ca.crt"), ca.certificate);
}

function check(service: string | undefined = "gateway", now = NOW) {
  const files = { certFile: file("tls.crt"), keyFile: file("tls.key"), caFile: file("ca.crt") };
  const found = checkCertificate({ subject: "gateway", files, service, nowMs: now.getTime() });
  return found.map(
    ({ area, result, found: text }) => `${result} ${area} ${text.replaceAll(`${folder}/`, "")}`,
  );
}

test("a sound certificate is named, with its end", () => {
  expect(check()).toEqual(["ok certificate gateway, until 2026-12-23 12:00"]);
});

test.each([
  [22.9, "ok certificate gateway, until 2026-12-23 12:00"],
  [23.1, "warning certificate tls.crt expires in 165 h"],
  [29.1, "failed certificate tls.crt expires in 21 h"],
  [30.1, "failed certificate tls.crt expired on 2026-12-23 12:00"],
  [-1, "failed certificate tls.crt is valid from 2026-11-23 11:59 only"],
])("after %d days: %s", (days, finding) => {
  expect(check("gateway", later(days))).toEqual([finding]);
});

test("the key of another certificate, and a key that others may read", async () => {
  writeFileSync(file("tls.key"), (await issueCertificate(authority, "gateway", NOW)).key);
  expect(check()).toEqual(["failed certificate tls.key is not the key of tls.crt"]);
  put(gateway);
  chmodSync(file("tls.key"), 0o644);
  expect(check()).toEqual([
    "failed permission the file is open to other users: make its mode 0400, or 0440 for a group",
  ]);
  chmodSync(file("tls.key"), 0o600);
});

test("another authority, and one that has expired", () => {
  put(gateway, other);
  expect(check()).toEqual(["failed certificate tls.crt was not issued by the authority in TLS_CA_FILE"]);
  put(gateway);
  expect(check("gateway", later(3_700))).toEqual([
    "failed certificate tls.crt was issued by an authority that has expired",
    "failed certificate tls.crt expired on 2026-12-23 12:00",
  ]);
  const nowMs = later(3_700).getTime();
  expect(checkAuthorities(file("ca.crt"), nowMs)).toMatchObject([{ result: "failed" }]);
  expect(checkAuthorities(file("ca.crt"), NOW.getTime())).toMatchObject([{ result: "ok" }]);
});

test("a bundle with a second authority does", () => {
  writeFileSync(file("ca.crt"), other.certificate + authority.certificate);
  expect(check()).toEqual(["ok certificate gateway, until 2026-12-23 12:00"]);
});

test.each([
  ["gateway", undefined, "tls.crt is of gateway, not of an operator or auditor with a name"],
  ["operator/ada", "gateway", "tls.crt is of operator:ada, not of gateway"],
  [
    "operator",
    undefined,
    "tls.crt is of nobody that Gatehouse knows, not of an operator or auditor with a name",
  ],
])("a certificate of %s is not one of %s", async (identity, service, problem) => {
  put(await issueCertificate(authority, identity, NOW));
  const files = { certFile: file("tls.crt"), keyFile: file("tls.key"), caFile: file("ca.crt") };
  const found = checkCertificate({ subject: "x", files, service, nowMs: NOW.getTime() });
  expect(found.map((each) => each.found.replaceAll(`${folder}/`, ""))).toEqual([problem]);
});

test("files that are missing or are no certificates are named", () => {
  writeFileSync(file("ca.crt"), "nothing");
  rmSync(file("tls.crt"));
  expect(check()).toEqual([
    expect.stringContaining("failed certificate tls.crt cannot be read (ENOENT"),
    "failed certificate ca.crt has no certificate",
  ]);
});
