import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { copyFile, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { parse } from "yaml";
import { COMMANDS } from "#cli/commands/commands.ts";
import { run } from "#cli/run.ts";
import { certificateFiles, ensureCertificates, type Identity } from "#deploy/local/certificates.ts";
import { type Home, openHome } from "#deploy/local/home.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { callUnary, createRpcClient } from "#kit/rpc/rpc-client.ts";
import { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import { TokenServiceClient } from "#proto/gatehouse/token/v1/token_service.ts";
import { configSchema } from "#token-service/config.ts";
import { createTestDatabase, type TestDatabase } from "../support/database/postgres.ts";
import { startTokenServer } from "../support/system/token-server.ts";
import { logIn, startTokenReplica, type TokenReplica } from "../support/system/token-service.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");
const hasOpenssl = (() => {
  try {
    return /^OpenSSL [3-9]/.test(execFileSync("openssl", ["version"], { encoding: "utf8" }));
  } catch {
    return false;
  }
})();

let home: Home;
let database: TestDatabase;
let replica: TokenReplica;

beforeEach(async () => {
  home = await openHome(await mkdtemp(join(tmpdir(), "gatehouse home of a shop-")));
  await ensureCertificates(home.tls, new Date(), "tester");
  await writeFile(home.portsFile, '{"TOKEN_PORT":50999}');
  database = await createTestDatabase("token-service");
  replica = await startTokenReplica(database.sql);
});
afterEach(async () => {
  replica.stop();
  await database.drop();
  await rm(home.path, { recursive: true });
});

async function issue(...argv: string[]) {
  let [out, error] = ["", ""];
  const code = await run(["certificates", "issue", ...argv], COMMANDS, {
    environment: {},
    defaultHome: home.path,
    writeOut: (text) => {
      out += text;
    },
    writeError: (text) => {
      error += text;
    },
  });
  return { code, out, error };
}

function certificateOf(directory: string, name: string): ProcessCertificate {
  const files = certificateFiles(directory, name);
  const certificate = new ProcessCertificate({
    certFile: files.certificate,
    keyFile: files.key,
    caFile: files.authority,
  });
  onTestFinished(() => certificate.close());
  return certificate;
}

/** Of a token-service with these verifiers, by a real call over mutual TLS. */
async function verdictFor(certificate: ProcessCertificate, VERIFIERS: string): Promise<boolean> {
  const of = (name: Identity) => certificateOf(home.tls, name);
  const verifiers = configSchema.shape.VERIFIERS.parse(VERIFIERS) ?? [];
  const server = await startTokenServer(replica, { of }, 0, { verifiers });
  const client = createRpcClient(TokenServiceClient, {
    address: server.address,
    service: "token-service",
    certificate,
  });
  try {
    const token = (await logIn(replica, randomUUID())).accessToken;
    const context = newCallContext({ budgetMs: 10_000 });
    return (await callUnary(client, client.verifyToken, { token }, context)).active;
  } finally {
    client.close();
    await server.stop();
  }
}

const settingsOf = () => readFile(join(home.services, "token-service.env"), "utf8");

test("one command: a certificate that token-service accepts, files of the owner only, and settings for a shell", async () => {
  const { code, out, error } = await issue("my-shop");
  expect({ code, error }).toEqual({ code: 0, error: "" });
  const { certificate, key, authority } = certificateFiles(home.tls, "my-shop");
  for (const file of [certificate, key]) expect((await stat(file)).mode & 0o777).toBe(0o600);
  const file = join(home.path, "my-shop.env");
  await writeFile(file, out);
  const names = ["TOKEN_SERVICE_ADDRESS", "TLS_CERT_FILE", "TLS_KEY_FILE", "TLS_CA_FILE"];
  const script = `. "$0"; printf '%s\n' ${names.map((name) => `"$${name}"`).join(" ")}`;
  const read = execFileSync("sh", ["-euc", script, file], { encoding: "utf8" }).trim().split("\n");
  expect(read).toEqual(["127.0.0.1:50999", certificate, key, authority]);
  // What only the service knows, such as its port, is not set.
  expect([...out.matchAll(/^export (\w+)=/gm)].map(([, name]) => name)).toEqual(names);
  expect(await settingsOf()).toBe("VERIFIERS=my-shop\n");
  const issued = certificateOf(home.tls, "my-shop");
  expect(await verdictFor(issued, "my-shop")).toBe(true);
  await expect(verdictFor(issued, "other-shop")).rejects.toMatchObject({ code: "caller_not_allowed" });
  // The gateway needs no place in the list.
  expect(await verdictFor(certificateOf(home.tls, "gateway"), "other-shop")).toBe(true);
});

test("a name is added once, beside others, and a pair is replaced with --renew only", async () => {
  await writeFile(
    join(home.services, "token-service.env"),
    "JWKS_MAX_AGE_S=60\nexport VERIFIERS=a, b\n# end",
  );
  expect((await issue("my-shop")).code).toBe(0);
  expect(await settingsOf()).toBe("JWKS_MAX_AGE_S=60\nVERIFIERS=a,b,my-shop\n# end");
  const { key } = certificateFiles(home.tls, "my-shop");
  const first = await readFile(key, "utf8");
  expect(await issue("my-shop")).toMatchObject({ code: 73, error: expect.stringContaining("add --renew") });
  expect(await readFile(key, "utf8")).toBe(first);
  expect((await issue("my-shop", "--renew")).code).toBe(0);
  expect(await readFile(key, "utf8")).not.toBe(first);
  expect(await settingsOf()).toBe("JWKS_MAX_AGE_S=60\nVERIFIERS=a,b,my-shop\n# end");
});

test("Gatehouse's own names, and what a certificate cannot have, are refused, and nothing is written", async () => {
  const own = [
    "gateway",
    "token-service",
    "audit-service",
    "payments-service",
    "envoy",
    "operator",
    "auditor",
    "ca",
  ];
  const malformed = [
    "../escape",
    "a/b",
    "operator/ada",
    "My-Shop",
    "my_shop",
    "my.shop",
    "ä",
    "a\nb",
    "a, URI:b",
  ];
  const before = await readFile(join(home.tls, "ca.key"), "utf8");
  for (const name of [...own, ...malformed, "a".repeat(64)]) {
    const error = expect.stringContaining("<name> must be");
    expect(await issue(name), name).toMatchObject({ code: 64, error });
  }
  expect(await readFile(join(home.tls, "ca.key"), "utf8")).toBe(before);
  await expect(settingsOf()).rejects.toThrow("ENOENT");
});

test("a folder that is no home stays as it is, and a home without an authority gets no certificate", async () => {
  const folder = await mkdtemp(join(tmpdir(), "gatehouse-no-home-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const refused = { code: 78, error: expect.stringContaining("is not the home of a local Gatehouse") };
  expect(await issue("my-shop", "--home", folder)).toMatchObject(refused);
  await expect(stat(join(folder, "tls"))).rejects.toThrow("ENOENT");
  await rm(join(home.tls, "ca.key"));
  expect(await issue("my-shop")).toMatchObject(refused);
  await expect(settingsOf()).rejects.toThrow("ENOENT");
});

/** Code of the section "A certificate" of docs/verify-tokens.md. */
async function ofPaper(language: string): Promise<string> {
  const page = await readFile(join(ROOT, "docs", "verify-tokens.md"), "utf8");
  const section = page.split("\n## A certificate\n")[1]?.split("\n## ")[0] ?? "";
  const blocks = [...section.matchAll(/^```(\w+)\n(.*?)^```$/gms)];
  return blocks.filter(([, kind]) => kind === language).at(-1)?.[2] ?? "";
}

async function issueByOpenssl(script: string): Promise<ProcessCertificate> {
  const folder = await mkdtemp(join(tmpdir(), "gatehouse-openssl-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  for (const name of ["ca.crt", "ca.key"]) await copyFile(join(home.tls, name), join(folder, name));
  execFileSync("sh", ["-euc", script], { cwd: folder, stdio: "pipe" });
  expect((await stat(join(folder, "my-shop.key"))).mode & 0o777).toBe(0o600);
  return certificateOf(folder, "my-shop");
}

test.skipIf(!hasOpenssl)(
  "token-service accepts what the page's lines for OpenSSL make (3 or newer)",
  async () => {
    const made = await issueByOpenssl(await ofPaper("sh"));
    expect(await verdictFor(made, "my-shop")).toBe(true);
    await expect(verdictFor(made, "other-shop")).rejects.toMatchObject({ code: "caller_not_allowed" });
  },
);

test.skipIf(!hasOpenssl)(
  "the page's Certificate is as those of the manifests, and token-service accepts what it asks for",
  async () => {
    const { spec, ...head } = parse(await ofPaper("yaml"));
    const component = await readFile(
      join(ROOT, "deploy/k8s/components/cert-manager/certificates.yaml"),
      "utf8",
    );
    const gateway = parse(component.split(/^---$/m)[0] ?? "");
    expect(head).toEqual({ ...gateway, metadata: { name: "my-shop" }, spec: undefined });
    const { uris, usages, secretName, ...rest } = spec;
    expect({ ...gateway.spec, ...rest }).toEqual(gateway.spec);
    expect([uris, secretName]).toEqual([["spiffe://gatehouse/my-shop"], "my-shop-tls"]);
    expect(gateway.spec.usages).toEqual(expect.arrayContaining(usages));
    const purposes: Record<string, string> = {
      "digital signature": "keyUsage=critical,digitalSignature",
      "client auth": "extendedKeyUsage=clientAuth",
    };
    const extensions = [`subjectAltName=URI:${uris[0]}`, ...usages.map((usage: string) => purposes[usage])];
    const script = (await ofPaper("sh")).replace(/^echo ".*?"/ms, `echo "${extensions.join("\n")}"`);
    expect(await verdictFor(await issueByOpenssl(script), "my-shop")).toBe(true);
  },
);
