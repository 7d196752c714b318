import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import { writeChart } from "../helm/chart.ts";
import { BASE_FOLDER, bom } from "./bom.ts";
import { inFolder, nameOf, pack, type Release } from "./folder.ts";
import { goModule, jar, npmPackages, wheel } from "./packages.ts";
import { ReleaseError, run } from "./run.ts";

type Part = (release: Release) => Promise<void>;

/** In their order: the manifests name the digest of the image. */
export const PARTS = {
  image,
  sbom: async (release) => {
    const text = JSON.stringify(await bom(release), undefined, 2);
    await writeFile(join(release.folder, nameOf(release, "sbom.cdx.json")), `${text}\n`);
  },
  npm: npmPackages,
  wheel,
  "go-module": goModule,
  jar,
  manifests,
  openapi: async (release) => {
    const print = join(release.root, "tests", "support", "house", "print-openapi.ts");
    const document = await run(process.execPath, [print]);
    await writeFile(join(release.folder, nameOf(release, "openapi.json")), document);
  },
} satisfies Record<string, Part>;
export type PartName = keyof typeof PARTS;

const imageName = (release: Release) => nameOf(release, "image.tar");

async function image(release: Release): Promise<void> {
  await inFolder(async (folder) => {
    // The commit and nothing else: not what lies beside it.
    const sources = join(folder, "sources");
    await run("git", ["clone", "--quiet", "--no-hardlinks", release.root, sources]);
    await run("git", ["-C", sources, "checkout", "--quiet", release.revision]);
    await run("deploy/release/image.sh", [sources, join(release.folder, imageName(release))], {
      env: {
        VERSION: release.version,
        REVISION: release.revision,
        SOURCE_DATE_EPOCH: String(release.epochS),
        ...(process.env.BASE_FOLDER === undefined ? {} : { BASE_FOLDER }),
      },
    });
  });
}

/** What `kubectl apply -k` takes, the production overlay as it is rendered, and as a Helm chart. */
async function manifests(release: Release): Promise<void> {
  await inFolder(async (folder) => {
    await run("sh", [
      "-c",
      `git archive ${release.revision} deploy/k8s deploy/monitoring | tar -x -C "${folder}"`,
    ]);
    const overlay = join(folder, "deploy", "k8s", "overlays", "production");
    const file = join(overlay, "kustomization.yaml");
    const kustomization = parse(await readFile(file, "utf8")) as {
      images: { newTag?: string; digest?: string }[];
    };
    const [used] = kustomization.images;
    if (used === undefined) throw new ReleaseError(`${file} names no image`);
    const digest = await imageDigest(release);
    if (digest !== undefined) {
      delete used.newTag;
      used.digest = digest;
      await writeFile(file, stringify(kustomization));
    }
    const rendered = await run("kubectl", ["kustomize", overlay]);
    await writeFile(join(release.folder, nameOf(release, "production.yaml")), rendered);
    await pack(release, folder, nameOf(release, "manifests.tar"));
    writeChart(join(folder, "deploy", "k8s"), join(folder, "chart", "gatehouse"), release.version);
    await pack(release, join(folder, "chart"), nameOf(release, "chart.tgz"), "gatehouse");
  });
}

/**
 * Of the archive's manifest, as every registry will name it. Undefined without the part.
 * @throws {ReleaseError} for an archive that names none. @see OCI image layout, index.json.
 */
async function imageDigest(release: Release): Promise<string | undefined> {
  const archive = join(release.folder, imageName(release));
  if (!existsSync(archive)) return undefined;
  const index = JSON.parse(await run("tar", ["-xOf", archive, "./index.json"])) as ImageIndex;
  const digest = index.manifests?.[0]?.digest;
  if (digest === undefined) throw new ReleaseError(`${archive} names no image`);
  return digest;
}

interface ImageIndex {
  manifests?: { digest?: string }[];
}
