import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { build, type OutputChunk, type Plugin } from "rolldown";
import {
  DIST,
  IMAGE_PROGRAMS,
  nameOf,
  PROGRAMS,
  PROGRAMS_FILE,
  type Programs,
  ROOT,
  readPrograms,
  stampBefore,
} from "./programs.ts";

/**
 * Bundles the programs into `dist/`: `npm run build:programs`. A process that reads a few files instead of a thousand starts
 * in half of the time, and has 20 to 28 MB less.
 *
 * As with the pages, names have the hash of the content, the list is written last, and the files of the build before stay for
 * processes that load them late.
 *
 * With the argument `image` it bundles the programs of the image: entries have fixed names, nothing is kept of a build before,
 * and the licences of the libraries are beside them.
 */
const isForImage = process.argv[2] === "image";

/** A change of them changes what is bundled. */
const BESIDE = ["package.json", "node_modules/.package-lock.json"];
const IS_LIBRARY = /[\\/]node_modules[\\/]/;
const LIBRARY_FOLDER = /^.*[\\/]node_modules[\\/](@[^\\/]+[\\/])?[^\\/]+/;

/** Sources find files beside them. Libraries get no lines in the source maps, which the logger keeps in memory from the first error on. */
const places: Plugin = {
  name: "places",
  transform(code, id, { magicString }) {
    const folder = JSON.stringify(dirname(id));
    if (IS_LIBRARY.test(id)) return { code: code.replaceAll("__dirname", folder), map: { mappings: "" } };
    if (!id.startsWith(ROOT) || !code.includes("import.meta")) return undefined;
    const replaced = magicString?.replaceAll("import.meta.dirname", folder);
    if (replaced === undefined || replaced.toString().includes("import.meta"))
      this.error(`${id}: of import.meta only dirname is known in a bundle`);
    return { code: replaced };
  },
};

// Rolldown's threads wait for each other by spinning in the kernel: 1.7 s of CPU with one, 2.9 with one for each of two cores.
process.env.RAYON_NUM_THREADS ??= "1";
const begunMs = Date.now();
const { output } = await build({
  cwd: ROOT,
  input: Object.fromEntries((isForImage ? IMAGE_PROGRAMS : PROGRAMS).map((entry) => [nameOf(entry), entry])),
  platform: "node",
  resolve: { symlinks: false }, // Places of libraries are below ROOT also where `node_modules` is a link.
  // The code of the first is native. Commands that import the second say that the image does not have it.
  external: [/^@node-rs\//, ...(isForImage ? [/^#deploy\/local\//] : [])],
  plugins: [places],
  experimental: { nativeMagicString: true },
  write: false,
  logLevel: "warn",
  checks: { eval: false }, // A library has it, and only warns.
  output: {
    entryFileNames: isForImage ? "[name].mjs" : "[name]-[hash].mjs",
    chunkFileNames: "[name]-[hash].mjs",
    // Otherwise V8 keeps a file with any other character at two bytes for each.
    charset: "ascii",
    comments: false,
    sourcemap: true,
    sourcemapExcludeSources: true,
  },
});

const chunks = output.filter((file) => file.type === "chunk");
await mkdir(DIST, { recursive: true });
for (const file of output)
  await writeAtOnce(join(DIST, file.fileName), file.type === "chunk" ? file.code : file.source);
if (isForImage) await writeAtOnce(join(DIST, "THIRD-PARTY-LICENSES.txt"), await licensesOf(chunks));
else await listPrograms();

async function listPrograms(): Promise<void> {
  const entries: Programs["entries"] = {};
  const sources = new Set(BESIDE);
  const path = (id: string) => relative(ROOT, id).split(sep).join("/");
  for (const { isEntry, facadeModuleId, fileName, moduleIds } of chunks) {
    if (isEntry && facadeModuleId) entries[path(facadeModuleId)] = fileName;
    for (const id of moduleIds) if (id.startsWith(ROOT) && !IS_LIBRARY.test(id)) sources.add(path(id));
  }
  const before = readPrograms()?.files ?? [];
  const programs: Programs = {
    root: ROOT,
    entries,
    files: output.map(({ fileName }) => fileName),
    sources: Object.fromEntries([...sources].map((path) => [path, stampBefore(begunMs, path)])),
  };
  await writeAtOnce(PROGRAMS_FILE, JSON.stringify(programs));
  const kept = new Set([...programs.files, ...before]);
  // Not the drafts of another build.
  const others = (await readdir(DIST)).filter((name) => /\.mjs(\.map)?$/.test(name) && !kept.has(name));
  await Promise.all(others.map((name) => rm(join(DIST, name), { force: true })));
}

/** Of the libraries in the bundles: their licences ask for it. */
async function licensesOf(chunks: readonly OutputChunk[]): Promise<string> {
  const modules = chunks.flatMap(({ moduleIds }) => moduleIds);
  const folders = new Set(modules.flatMap((id) => LIBRARY_FOLDER.exec(id)?.[0] ?? []));
  const texts = [...folders].sort().map(async (folder) => {
    const { name, version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    const files = (await readdir(folder)).filter((file) => /^(licen[cs]e|copying|notice)/i.test(file));
    const read = await Promise.all(files.sort().map((file) => readFile(join(folder, file), "utf8")));
    return [`${name} ${version}: ${license}`, ...read.map((text) => text.trim())].join("\n\n");
  });
  return `${(await Promise.all(texts)).join(`\n\n${"-".repeat(80)}\n\n`)}\n`;
}

async function writeAtOnce(path: string, content: string | Uint8Array): Promise<void> {
  const draft = `${path}.${process.pid}`;
  await writeFile(draft, content);
  await rename(draft, path);
}
