import { mkdir, readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { refuseAdvisories } from "./advisories.ts";
import { PARTS, type PartName } from "./parts.ts";
import { ReleaseError, run } from "./run.ts";
import { sign, writeChecksums } from "./signature.ts";

/*
 * Makes a release of the present commit: `npm run release -- --out FOLDER --key KEY`. docs/release.md says what is in it.
 * Each part has the same bytes when it is made again with the same tools.
 */

const ROOT = resolve(import.meta.dirname, "..", "..");
const NAMES = Object.keys(PARTS) as PartName[];
const USAGE = `Usage: npm run release -- --out FOLDER (--key KEY | --unsigned) [--without PART]…

  --out       an empty folder, or one that is made
  --key       a secret key of minisign, which asks for its password
  --unsigned  no signature: for tries only
  --without   a part to leave out: ${NAMES.join(", ")}

Environment: BASE_FOLDER, NPMRC and CA for the image (deploy/release/image.sh); GO_MODULE, MAVEN_GROUP and PROJECT_URL,
the names to publish under (docs/release.md).`;

async function main(): Promise<void> {
  const { out, key, unsigned, without = [] } = parseArguments();
  if (out === undefined || (key === undefined) === (unsigned !== true)) throw new ReleaseError(USAGE, 64);
  const wrong = without.find((name) => !(NAMES as string[]).includes(name));
  if (wrong !== undefined) throw new ReleaseError(`There is no part ${wrong}.\n\n${USAGE}`, 64);
  if ((await run("git", ["status", "--porcelain"])) !== "")
    throw new ReleaseError("Something is not committed. A release is made of a commit.");
  const folder = resolve(out);
  await mkdir(folder, { recursive: true });
  if ((await run("ls", ["-A", folder])) !== "") throw new ReleaseError(`${folder} is not empty.`);
  const { version } = JSON.parse(await readFile(resolve(ROOT, "package.json"), "utf8")) as {
    version: string;
  };
  const changes = await readFile(resolve(ROOT, "CHANGELOG.md"), "utf8");
  if (!changes.includes(`\n## [${version}]`))
    throw new ReleaseError(`CHANGELOG.md says nothing of ${version}.`);
  console.log(await refuseAdvisories());
  const release = {
    root: ROOT,
    folder,
    version,
    revision: (await run("git", ["rev-parse", "HEAD"])).trim(),
    /** Of the commit: what is made later has the same time. */
    epochS: Number(await run("git", ["show", "-s", "--format=%ct", "HEAD"])),
  };
  for (const name of NAMES.filter((part) => !without.includes(part))) {
    console.log(`${name} …`);
    await PARTS[name](release);
  }
  await writeChecksums(folder);
  if (key !== undefined) await sign(folder, resolve(key), `gatehouse ${version} ${release.revision}`);
  console.log(await readFile(resolve(folder, "SHA256SUMS"), "utf8"));
}

function parseArguments() {
  const options = {
    out: { type: "string" },
    key: { type: "string" },
    unsigned: { type: "boolean" },
    without: { type: "string", multiple: true },
  } as const;
  try {
    return parseArgs({ options }).values;
  } catch (error) {
    throw new ReleaseError(`${(error as Error).message}\n\n${USAGE}`, 64);
  }
}

try {
  await main();
} catch (error) {
  if (!(error instanceof ReleaseError)) throw error;
  console.error(error.message);
  process.exitCode = error.exitCode;
}
