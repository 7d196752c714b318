import { writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { ownRoutesFiles } from "./own-routes-files.ts";

// `npm run generate:api`.

for (const [file, text] of Object.entries(await ownRoutesFiles())) {
  await writeFile(join(resolve(import.meta.dirname, "..", "..", ".."), file), text);
}
