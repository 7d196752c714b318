import { readFileSync } from "node:fs";
import { SourceMap } from "node:module";
import { dirname, resolve } from "node:path";

/** `file:///…/dist/gateway-x.mjs:12:3`, as V8 writes it. */
const PLACE = /file:\/\/(\/[^\s():]+\.mjs):(\d+):(\d+)/g;

const maps = new Map<string, SourceMap | undefined>();

/**
 * Names the places of a bundle (`deploy/programs`) by those in its sources. Maps are read with the first error of their file:
 * `--enable-source-maps` reads all of them at the start, which takes 8 to 15 MB of each process.
 */
export function inSources(stack: string): string {
  return stack.replace(PLACE, (place: string, file: string, line: string, column: string) => {
    const origin = mapOf(file)?.findOrigin(Number(line), Number(column));
    if (origin === undefined || !("fileName" in origin) || origin.fileName === undefined) return place;
    return `${resolve(dirname(file), origin.fileName)}:${origin.lineNumber}:${origin.columnNumber}`;
  });
}

function mapOf(file: string): SourceMap | undefined {
  if (maps.has(file)) return maps.get(file);
  let map: SourceMap | undefined;
  try {
    map = new SourceMap(JSON.parse(readFileSync(`${file}.map`, "utf8")));
  } catch {
    // A module that is its own source.
  }
  maps.set(file, map);
  return map;
}
