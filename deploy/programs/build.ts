import { mkdir, readdir, rename, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join, relative, sep } from "node:path";
import { build, type Plugin } from "rolldown";
import { DIST, PROGRAMS, PROGRAMS_FILE, type Programs, ROOT, readPrograms, stampBefore } from "./programs.ts";

/**
 * Bundles the programs into `dist/`: `npm run build:programs`. A process that reads a few files instead of a thousand starts
 * in half of the time, and has 20 to 28 MB less.
 *
 * As with the pages, names have the hash of the content, the list is written last, and the files of the build before stay for
 * processes that load them late.
 */

/** A change of them changes what is bundled. */
const BESIDE = ["package.json", "node_modules/.package-lock.json"];
const IS_LIBRARY = /[\\/]node_modules[\\/]/;

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

const begunMs = Date.now();
const { output } = await build({
  cwd: ROOT,
  input: Object.fromEntries(PROGRAMS.map((entry) => [nameOf(entry), entry])),
  platform: "node",
  external: [/^@node-rs\//], // Their code is native.
  plugins: [places],
  experimental: { nativeMagicString: true },
  write: false,
  logLevel: "warn",
  checks: { eval: false }, // A library has it, and only warns.
  output: {
    entryFileNames: "[name]-[hash].mjs",
    chunkFileNames: "[name]-[hash].mjs",
    // Otherwise V8 keeps a file with any other character at two bytes for each.
    charset: "ascii",
    comments: false,
    sourcemap: true,
    sourcemapExcludeSources: true,
  },
});

const entries: Programs["entries"] = {};
const sources = new Set(BESIDE);
await mkdir(DIST, { recursive: true });
for (const file of output) {
  await writeAtOnce(join(DIST, file.fileName), file.type === "chunk" ? file.code : file.source);
  if (file.type !== "chunk") continue;
  const path = (id: string) => relative(ROOT, id).split(sep).join("/");
  if (file.isEntry && file.facadeModuleId) entries[path(file.facadeModuleId)] = file.fileName;
  for (const id of file.moduleIds) if (id.startsWith(ROOT) && !IS_LIBRARY.test(id)) sources.add(path(id));
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

/** For one of several entries named `main.ts`. */
function nameOf(entry: string): string {
  return entry.endsWith("/main.ts") ? basename(dirname(entry)) : basename(entry, ".ts");
}

async function writeAtOnce(path: string, content: string | Uint8Array): Promise<void> {
  const draft = `${path}.${process.pid}`;
  await writeFile(draft, content);
  await rename(draft, path);
}
