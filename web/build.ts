import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import { build, type Rolldown } from "vite";
import type { BuiltInLanguages } from "#kit/config/page-languages.ts";
import { de as consoleDe } from "./console/languages/de.ts";
import { en as consoleEn } from "./console/languages/en.ts";
import { accountDe } from "./portal/languages/account.de.ts";
import { accountEn } from "./portal/languages/account.en.ts";
import { de as loginDe } from "./portal/languages/login.de.ts";
import { en as loginEn } from "./portal/languages/login.en.ts";
import { DIST, isBuilt, manifestFile, PAGES, type PagesManifest, sourcesDigest } from "./sources.ts";
import { de } from "./ui/languages/de.ts";
import { en } from "./ui/languages/en.ts";
import { GATEWAY_TEXTS } from "./ui/languages/gateway.ts";

/**
 * Builds the pages: `npm run build:web`. Nothing if they were built from the present sources.
 *
 * Files have the hash of their content in their names, and the manifest is renamed into place at the end, so whoever reads
 * during a build, also one by another process, gets the former pages or the new ones.
 */

/** All have Trusted Types or ignore them, `light-dark()` and WebAuthn's JSON. */
const BROWSERS = ["chrome129", "firefox128", "safari18"];

/** What every page needs: few files, which stay in caches when the pages change. Groups in front take their modules first. */
const GROUPS = [
  {
    name: "base",
    test: /node_modules\/(?:react|react-dom|scheduler|@tanstack\/(?!query|react-query)[\w-]+)\//,
  },
  // Not what few pages use, which would bring React Aria along.
  {
    name: "ui",
    test: /web\/ui\/(?!dialog|states|format|languages|save)|web\/session\/(?:[\w-]+\.ts|unreached\.tsx)$|web\/portal\/(?!field-texts|device-text)(?:[\w-]+\.ts|(?:login-answer|provider-buttons)\.tsx)$/,
  },
];

/** Of the libraries in the pages: it is beside them, and not served. */
const LICENSES = "THIRD-PARTY-LICENSES.txt";

/** 11 saves 2 % and takes more than twice the time. */
const BROTLI_QUALITY = 10;

const brotli = promisify(brotliCompress);
const zip = promisify(gzip);

async function buildPages(folder: string, base: string, sources: string): Promise<void> {
  const built = (await build({
    root: join(import.meta.dirname, folder),
    base,
    configFile: false,
    envDir: false,
    publicDir: false,
    logLevel: "warn",
    build: {
      write: false,
      target: BROWSERS,
      assetsDir: "assets",
      // Every file has an address: `data:` is not in the policy.
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      reportCompressedSize: false,
      license: { fileName: LICENSES },
      rolldownOptions: {
        // Libraries say "use client", which means nothing here.
        onLog: (level, log, report) => log.code !== "MODULE_LEVEL_DIRECTIVE" && report(level, log),
        output: { codeSplitting: { groups: GROUPS } },
      },
    },
  })) as Rolldown.RolldownOutput;
  const outputs = built.output.map((file) => ({
    name: file.fileName,
    content: Buffer.from(file.type === "chunk" ? file.code : file.source),
  }));
  const [page, licenses] = ["index.html", LICENSES].map((wanted) =>
    outputs.find(({ name }) => name === wanted),
  );
  if (page === undefined || licenses === undefined)
    throw new Error(`web/${folder} has no page or no licences`);
  const files = outputs.filter((output) => output !== page && output !== licenses);
  await Promise.all(files.map(({ name, content }) => writeCompressed(join(DIST, folder, name), content)));
  await writeAtOnce(join(DIST, folder, LICENSES), licenses.content);
  const manifest: PagesManifest = {
    sources,
    page: page.content.toString(),
    files: files.map(({ name }) => name).sort(),
  };
  await writeAtOnce(manifestFile(folder), JSON.stringify(manifest));
  await removeOthers(folder, manifest.files);
}

/** Beside the pages, for the gateway and the CLI: all texts of each language. */
async function writeLanguages(): Promise<void> {
  const read = async (tag: string) =>
    JSON.parse(await readFile(join(import.meta.dirname, "languages", `${tag}.json`), "utf8"));
  const languages: BuiltInLanguages = {
    en: {
      name: "English",
      isInScripts: true,
      ui: en,
      portal: { ...loginEn, ...accountEn },
      console: consoleEn,
      gateway: GATEWAY_TEXTS.en,
    },
    de: {
      name: "Deutsch",
      isInScripts: true,
      ui: de,
      portal: { ...loginDe, ...accountDe },
      console: consoleDe,
      gateway: GATEWAY_TEXTS.de,
    },
    es: await read("es"),
    fr: await read("fr"),
  };
  await mkdir(DIST, { recursive: true });
  await writeAtOnce(join(DIST, "languages.json"), JSON.stringify(languages));
}

async function writeCompressed(path: string, content: Buffer): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const params = { [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY };
  await Promise.all([
    writeAtOnce(path, content),
    brotli(content, { params }).then((bytes) => writeAtOnce(`${path}.br`, bytes)),
    zip(content, { level: constants.Z_BEST_COMPRESSION }).then((bytes) => writeAtOnce(`${path}.gz`, bytes)),
  ]);
}

async function writeAtOnce(path: string, content: string | Buffer): Promise<void> {
  const draft = `${path}.${process.pid}`;
  await writeFile(draft, content);
  await rename(draft, path);
}

/** Of earlier builds. */
async function removeOthers(folder: string, files: readonly string[]): Promise<void> {
  const kept = new Set(files.flatMap((name) => [name, `${name}.br`, `${name}.gz`]));
  const assets = join(DIST, folder, "assets");
  const found = (await readdir(assets)).filter((name) => !kept.has(`assets/${name}`));
  await Promise.all(found.map((name) => rm(join(assets, name), { force: true })));
}

// Whoever calls, such as a test: React is built for production.
process.env.NODE_ENV = "production";
const digest = sourcesDigest();
if (!isBuilt(digest)) {
  await writeLanguages();
  await Promise.all(PAGES.map(({ folder, base }) => buildPages(folder, base, digest)));
  for (const { folder } of PAGES) {
    const { files } = JSON.parse(await readFile(manifestFile(folder), "utf8")) as PagesManifest;
    console.log(`web/${folder}: ${files.length} files`);
  }
}
