import { readFileSync } from "node:fs";
import { SourceMap } from "node:module";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";

/** `file:///…/dist/gateway-x.mjs:12:3`, as V8 writes it. */
const PLACE = /(file:\/\/\/[^\s():]+\.mjs):(\d+):(\d+)/g;

interface Bundle {
  file: string;
  map: SourceMap;
}

/** By address. Only those that there are: a message of an error, which stands in its stack, may name any. */
const bundles = new Map<string, Bundle>();

/**
 * Names the places of a bundle (`deploy/programs`) by those in its sources. Maps are read with the first error of their file:
 * `--enable-source-maps` reads all of them at the start, which takes 8 to 15 MB of each process.
 */
export function inSources(stack: string): string {
  return stack.replace(PLACE, (place: string, url: string, line: string, column: string) => {
    const bundle = bundles.get(url) ?? readBundle(url);
    const entry = bundle?.map.findEntry(Number(line) - 1, Number(column) - 1);
    // Otherwise the line is a library's, which has no entries: what is found stands above it.
    if (bundle === undefined || entry === undefined || !("originalSource" in entry)) return place;
    if (entry.generatedLine !== Number(line) - 1) return place;
    const source = resolve(dirname(bundle.file), entry.originalSource);
    return `${source}:${entry.originalLine + 1}:${entry.originalColumn + 1}`;
  });
}

function readBundle(url: string): Bundle | undefined {
  try {
    const file = fileURLToPath(url);
    const bundle = { file, map: new SourceMap(JSON.parse(readFileSync(`${file}.map`, "utf8"))) };
    bundles.set(url, bundle);
    return bundle;
  } catch {
    return undefined; // A module that is its own source, or no address.
  }
}
