import { copyFile, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { inFolder, nameOf, pack, type Release } from "./folder.ts";
import { run } from "./run.ts";

/*
 * The packages for the registries of the languages, each with the bytes of the commit. The Go module and the Maven group are
 * under `.example`, which belongs to nobody: who publishes them names their own here.
 */
const PLACEHOLDER = {
  goModule: "gatehouse.example/gatehouse",
  mavenGroup: "example.gatehouse",
  url: "https://gatehouse.example",
};
const GO_MODULE = process.env.GO_MODULE ?? PLACEHOLDER.goModule;
const MAVEN_GROUP = process.env.MAVEN_GROUP ?? PLACEHOLDER.mavenGroup;
const PROJECT_URL = process.env.PROJECT_URL ?? PLACEHOLDER.url;

/** `npm pack` writes the same bytes for the same files. */
export async function npmPackages({ root, folder }: Release): Promise<void> {
  await run("npm", ["run", "--silent", "build:client"]);
  const built = join(root, "clients", "dist", "browser");
  await run("npm", ["pack", "--silent", "--pack-destination", folder], { cwd: built });
  const tarball = (await run("npm", ["run", "--silent", "build:token-client"])).trim();
  await copyFile(tarball, join(folder, basename(tarball)));
}

export async function wheel(release: Release): Promise<void> {
  await withSources(release, ["clients/python"], async (sources) => {
    const python = join(sources, "clients", "python");
    await copyFile(join(release.root, "LICENSE"), join(python, "LICENSE"));
    const options = ["--quiet", "--no-deps", "--no-cache-dir", "--wheel-dir", release.folder];
    const env = { SOURCE_DATE_EPOCH: String(release.epochS) };
    await run("python3", ["-m", "pip", "wheel", ...options, python], { env });
  });
}

/** As a folder of a module proxy, which `go get` takes the module from. */
export async function goModule(release: Release): Promise<void> {
  await withSources(release, ["clients/go"], async (sources) => {
    const module = join(sources, "clients", "go");
    await rename(module, /\.go$|^go\.mod$|\.md$/, PLACEHOLDER.goModule, GO_MODULE);
    await copyFile(join(release.root, "LICENSE"), join(module, "LICENSE"));
    await run("go", ["build", "./..."], { cwd: module });
    const proxy = join(sources, "proxy");
    const named = [GO_MODULE, `v${release.version}`, timeOf(release)];
    await run("go", ["run", ".", module, proxy, ...named], {
      cwd: join(release.root, "deploy", "release", "go-module"),
    });
    await pack(release, proxy, nameOf(release, "go-module.tar"));
  });
}

/** The jar with its sources and documentation, and the file in which Maven reads what it needs. */
export async function jar(release: Release): Promise<void> {
  await withSources(release, ["clients/java", "proto"], async (sources) => {
    const java = join(sources, "clients", "java");
    await rename(java, /^pom\.xml$/, `<groupId>${PLACEHOLDER.mavenGroup}<`, `<groupId>${MAVEN_GROUP}<`);
    await rename(java, /^pom\.xml$/, `<url>${PLACEHOLDER.url}<`, `<url>${PROJECT_URL}<`);
    const license = join(java, "src", "main", "resources", "META-INF", "LICENSE");
    await mkdir(dirname(license), { recursive: true });
    await copyFile(join(release.root, "LICENSE"), license);
    const time = `-Dproject.build.outputTimestamp=${timeOf(release)}`;
    const goals = ["package", "source:jar-no-fork", "javadoc:jar"];
    await run("mvn", ["--quiet", "--batch-mode", ...goals, "-DskipTests", time], { cwd: java });
    const name = `token-client-${release.version}`;
    for (const jar of [`${name}.jar`, `${name}-sources.jar`, `${name}-javadoc.jar`])
      await copyFile(join(java, "target", jar), join(release.folder, jar));
    await copyFile(join(java, "pom.xml"), join(release.folder, `${name}.pom`));
  });
}

const timeOf = ({ epochS }: Release) => new Date(epochS * 1000).toISOString().replace(".000", "");

/** With these paths of the commit in a folder of their own. */
function withSources(
  { root, revision }: Release,
  paths: readonly string[],
  work: (sources: string) => Promise<void>,
): Promise<void> {
  return inFolder(async (sources) => {
    const archive = join(sources, "sources.tar");
    await run("git", ["-C", root, "archive", "--output", archive, revision, ...paths]);
    await run("tar", ["-xf", archive, "-C", sources]);
    await work(sources);
  });
}

async function rename(folder: string, files: RegExp, from: string, to: string): Promise<void> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  for (const entry of entries.filter((entry) => entry.isFile() && files.test(entry.name))) {
    const path = join(entry.parentPath, entry.name);
    await writeFile(path, (await readFile(path, "utf8")).replaceAll(from, to));
  }
}
