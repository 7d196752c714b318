import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { generateSource } from "oazapfts";
import { answeringGateway } from "#gateway/testing/answering-gateway.ts";

// `npm run generate:api` writes the client of the present OpenAPI document.

const TARGET = resolve(import.meta.dirname, "generated", "gatehouse.ts");

/** The generator does not support `exactOptionalPropertyTypes`. Callers are still type checked. */
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
