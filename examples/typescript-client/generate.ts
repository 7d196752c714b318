import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { generateSource } from "oazapfts";
import { answeringGateway } from "../../gateway/testing/answering-gateway.ts";

// Writes the client of the gateway's OpenAPI document as it is now: `npm run generate:client`.

const TARGET = resolve(import.meta.dirname, "generated", "gatehouse.ts");

/** The generator knows nothing of `exactOptionalPropertyTypes`. Callers are checked against the types all the same. */
const NOT_CHECKED = "// @ts-nocheck\n";

const { app, document } = answeringGateway();
const folder = await mkdtemp(join(tmpdir(), "gatehouse-openapi-"));
try {
  const file = join(folder, "openapi.json");
  await writeFile(file, JSON.stringify(await document()));
  const source = await generateSource(file, { useUnknown: true, futureStripLegacyMethods: true });
  await writeFile(TARGET, NOT_CHECKED + source);
} finally {
  await rm(folder, { recursive: true });
  await app.close();
}
