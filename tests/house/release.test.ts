import { execFileSync, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { NO_REGISTRY } from "#clients/conformance/tools.ts";
import { hasKubectl } from "#deploy/k8s/render.ts";
import { refuseAdvisories } from "#deploy/release/advisories.ts";
import type { Release } from "#deploy/release/folder.ts";
import { PARTS } from "#deploy/release/parts.ts";
import { sign, writeChecksums } from "#deploy/release/signature.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");
const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
const DIGEST = `sha256:${"5a".repeat(32)}`;
const TIMEOUT_MS = 300_000;
const git = (...args: string[]) => execFileSync("git", ["-C", ROOT, ...args], { encoding: "utf8" }).trim();
const has = (command: string) => spawnSync(command, ["-v"], { stdio: "ignore" }).error === undefined;

let work: string;
beforeAll(() => {
  work = mkdtempSync(join(tmpdir(), "gatehouse release "));
});
afterAll(() => rmSync(work, { recursive: true }));

function releaseIn(name: string): Release {
  const folder = join(work, name);
  mkdirSync(folder);
  return { root: ROOT, folder, version, revision: git("rev-parse", "HEAD"), epochS: 1_700_000_000 };
}

/** Everything but the packages of other languages, and the image, of which there is only the index. */
async function make(name: string): Promise<string> {
  const release = releaseIn(name);
  const { folder } = release;
  const layout = join(work, `${name} image`);
  mkdirSync(layout);
  writeFileSync(join(layout, "index.json"), JSON.stringify({ manifests: [{ digest: DIGEST }] }));
  execFileSync("tar", [
    ...["-C", layout, "--sort=name", `--mtime=@${release.epochS}`],
    ...["-cf", join(folder, `gatehouse-${version}-image.tar`), "."],
  ]);
  await PARTS.sbom(release);
  await PARTS.npm(release);
  await PARTS.openapi(release);
  if (hasKubectl()) await PARTS.manifests(release);
  await writeChecksums(folder);
  return folder;
}
const check = (folder: string) =>
  spawnSync("sha256sum", ["--check", "--quiet", "SHA256SUMS"], { cwd: folder }).status;
const read = (folder: string, rest: string) =>
  readFileSync(join(folder, `gatehouse-${version}-${rest}`), "utf8");

describe("a release", { tags: "exhaustive" }, () => {
  let folder: string;
  beforeAll(async () => {
    folder = await make("first");
  }, TIMEOUT_MS);

  test(
    "is the same when it is made again, byte by byte",
    async () => {
      const again = await make("again");
      expect(readFileSync(join(again, "SHA256SUMS"), "utf8")).toBe(
        readFileSync(join(folder, "SHA256SUMS"), "utf8"),
      );
      expect(check(again)).toBe(0);
      const openapi = join(again, `gatehouse-${version}-openapi.json`);
      writeFileSync(openapi, `${readFileSync(openapi, "utf8")} `);
      expect(check(again)).not.toBe(0);
    },
    TIMEOUT_MS,
  );

  test("names every file in its checksums", () => {
    const named = readFileSync(join(folder, "SHA256SUMS"), "utf8").matchAll(/^[\da-f]{64} {2}(.+)$/gm);
    const files = readdirSync(folder).filter((name) => !name.startsWith("SHA256SUMS"));
    expect([...named].map(([, name]) => name)).toEqual(files.sort());
    for (const name of ["browser", "token-client"]) {
      const archive = join(folder, `gatehouse-auth-${name}-${version}.tgz`);
      const packed = execFileSync("tar", ["-tzf", archive], { encoding: "utf8" }).split("\n");
      expect(packed).toEqual(expect.arrayContaining(["package/LICENSE", "package/README.md"]));
    }
  });

  test("has a bill of what runs, without what is for development", () => {
    const { bomFormat, components, metadata } = JSON.parse(read(folder, "sbom.cdx.json"));
    const names = components.map(({ purl }: { purl: string }) => purl.replace(/@[^@]*$/, ""));
    expect(bomFormat).toBe("CycloneDX");
    // Not the folder's, which would make it another document elsewhere.
    expect(metadata.component.name).toBe("gatehouse");
    expect(names).toContain("pkg:npm/fastify");
    expect(names).not.toContain("pkg:npm/vitest");
  });

  test.skipIf(!hasKubectl())(
    "names the image by its digest in every manifest (skipped without kubectl)",
    () => {
      const images = parseAllDocuments(read(folder, "production.yaml"))
        .flatMap((document) => JSON.stringify(document.toJS()).match(/"image":"[^"]+"/g) ?? [])
        .filter((image) => image.includes("gatehouse"));
      expect(images.length).toBeGreaterThan(4);
      expect(new Set(images)).toEqual(new Set([`"image":"registry.example.com/gatehouse@${DIGEST}"`]));
      // Helm takes only an archive whose first folder is the chart's name.
      const chart = join(folder, `gatehouse-${version}-chart.tgz`);
      const values = execFileSync("tar", ["-xzOf", chart, "gatehouse/values.yaml"], { encoding: "utf8" });
      expect(parse(values).image).toEqual({
        repository: "registry.example.com/gatehouse",
        tag: "",
        digest: DIGEST,
      });
    },
  );

  test.skipIf(!has("minisign"))(
    "is signed: a change of the checksums is refused (skipped without minisign)",
    async () => {
      const key = join(work, "key");
      execFileSync("minisign", ["-G", "-W", "-p", `${key}.pub`, "-s", key], { stdio: "ignore" });
      await sign(folder, key, `gatehouse ${version}`);
      const verify = () =>
        spawnSync("minisign", ["-V", "-p", `${key}.pub`, "-m", join(folder, "SHA256SUMS")], {
          encoding: "utf8",
        });
      expect(verify().stdout).toContain(`gatehouse ${version}`);
      const sums = join(folder, "SHA256SUMS");
      writeFileSync(
        sums,
        readFileSync(sums, "utf8").replace(/^./, (digit) => (digit === "0" ? "1" : "0")),
      );
      expect(verify().status).not.toBe(0);
    },
  );
});

test("an image that names no digest makes no manifests, so that none goes out with a tag", async () => {
  const release = releaseIn("damaged");
  const archive = join(release.folder, `gatehouse-${version}-image.tar`);
  writeFileSync(archive, "no archive");
  await expect(PARTS.manifests(release)).rejects.toThrow("image.tar");
  const layout = mkdtempSync(join(work, "layout"));
  writeFileSync(join(layout, "index.json"), '{"manifests":[]}');
  execFileSync("tar", ["-C", layout, "-cf", archive, "."]);
  await expect(PARTS.manifests(release)).rejects.toThrow("names no image");
});

test.skipIf(!has("minisign"))(
  "a key with a password signs: minisign asks for it (skipped without minisign)",
  () => {
    const folder = join(work, "with a password");
    mkdirSync(folder);
    writeFileSync(join(folder, "SHA256SUMS"), "");
    const key = join(work, "locked");
    const password = "a password\n";
    execFileSync("minisign", ["-G", "-p", `${key}.pub`, "-s", key], {
      input: password.repeat(2),
      stdio: "pipe",
    });
    const module = JSON.stringify(join(ROOT, "deploy", "release", "signature.ts"));
    const script = `await (await import(${module})).sign(${JSON.stringify(folder)}, ${JSON.stringify(key)}, "c");`;
    const signing = (input: string) =>
      spawnSync(process.execPath, ["--input-type=module", "-e", script], { input, encoding: "utf8" });
    expect(signing("wrong\n")).toMatchObject({
      status: 1,
      stderr: expect.stringContaining("minisign failed"),
    });
    expect(signing(password).status).toBe(0);
    const verify = ["-V", "-q", "-p", `${key}.pub`, "-m", join(folder, "SHA256SUMS")];
    expect(spawnSync("minisign", verify).status).toBe(0);
  },
  TIMEOUT_MS,
);

describe("the packages of other languages", { tags: "exhaustive" }, () => {
  test.for([
    { part: "wheel", file: `gatehouse_token_client-${version}-py3-none-any.whl` },
    { part: "go-module", file: `gatehouse-${version}-go-module.tar` },
    { part: "jar", file: `token-client-${version}.jar` },
  ] as const)(
    "$part is the same when it is made again",
    { timeout: TIMEOUT_MS },
    async ({ part, file }, { skip }) => {
      const releases = [releaseIn(`${part} first`), releaseIn(`${part} again`)];
      try {
        for (const release of releases) await PARTS[part](release);
      } catch (error) {
        const reason =
          /\S+ is not installed|No module named pip/.exec(String(error)) ?? NO_REGISTRY.exec(String(error));
        if (reason === null) throw error;
        process.stderr.write(`skipped: the ${part} of a release: ${reason[0]}\n`);
        return skip(reason[0]);
      }
      const [first, again] = releases.map(({ folder }) => readFileSync(join(folder, file)));
      expect(first?.length).toBeGreaterThan(10_000);
      expect(again?.equals(first ?? Buffer.alloc(0))).toBe(true);
      const names = releases.map(({ folder }) => readdirSync(folder));
      expect(names[0]).toEqual(names[1]);
    },
  );
});

test("the version is in one place, and where kustomize needs it", () => {
  for (const overlay of ["production", "development"]) {
    const text = readFileSync(join(ROOT, "deploy/k8s/overlays", overlay, "kustomization.yaml"), "utf8");
    expect(/newTag: (\S+)/.exec(text)?.[1]?.replace(/[,}]/g, ""), overlay).toBe(version);
    const jobs = readFileSync(
      join(ROOT, "deploy/k8s/overlays", overlay, "migrations/kustomization.yaml"),
      "utf8",
    );
    expect(jobs, overlay).toContain(`nameSuffix: -${version.replaceAll(".", "-")}`);
  }
  expect(readFileSync(join(ROOT, "CHANGELOG.md"), "utf8")).toContain(`\n## [${version}]`);
});

describe("advisories of packages", { tags: "exhaustive" }, () => {
  const advisory = (severity: string) => ({
    zod: [
      {
        id: 1,
        title: "Holes",
        url: "https://advisories.test/1",
        severity,
        vulnerable_versions: "*",
        cwe: [],
      },
    ],
  });
  const ask = async (status: number, answer: object) => {
    const server = createServer((request, response) => {
      const isQuestion = request.url?.endsWith("/advisories/bulk") === true;
      response.writeHead(isQuestion ? status : 404, { "content-type": "application/json" });
      response.end(JSON.stringify(isQuestion ? answer : {}));
    }).listen(0, "127.0.0.1");
    onTestFinished(() => void server.close());
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    // npm keeps what it has concluded of an advisory.
    const cache = mkdtempSync(join(work, "cache-"));
    return refuseAdvisories([`--registry=http://127.0.0.1:${port}`, `--cache=${cache}`]);
  };

  test("of a grave kind stop a release, with their names", { timeout: TIMEOUT_MS }, async () => {
    const refusal = /zod: critical: Holes: https:\/\/advisories\.test\/1/;
    await expect(ask(200, advisory("critical"))).rejects.toThrow(refusal);
    expect(await ask(200, advisory("moderate"))).toMatch(/\(1 of a lower level\)/);
    expect(await ask(200, {})).toMatch(/\(0 of a lower level\)/);
  });

  test("are never taken for none where nobody answers", { timeout: TIMEOUT_MS }, async () => {
    expect(await ask(405, {})).toMatch(/answers no advisories/);
  });
});
