import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { type Cacheable, cacheable } from "../edge/answers/cacheable.ts";

const require = createRequire(import.meta.url);

/** No inline scripts or styles, no frames. */
export const DOCS_CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  // Swagger UI's arrows.
  "img-src 'self' data:",
  // "Try it out" calls this gateway.
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Gatehouse API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger-ui.css">
<script src="docs/swagger-ui-bundle.js" defer></script>
<script src="docs/start.js" defer></script>
<noscript>This page needs scripts. The same in JSON: <a href="openapi.json">openapi.json</a></noscript>
<div id="swagger-ui"></div>
</html>
`;

/** No external validator gets the document. */
const START = `SwaggerUIBundle({ url: "openapi.json", dom_id: "#swagger-ui", deepLinking: true, validatorUrl: null });\n`;

interface DocsAssets {
  page: Cacheable;
  files: ReadonlyMap<string, Cacheable>;
}

let loading: Promise<DocsAssets> | undefined;

/** The same for each app of a process. */
export const docsAssets = (): Promise<DocsAssets> => (loading ??= loadDocsAssets());

/** Other files of Swagger UI are not served. */
async function loadDocsAssets(): Promise<DocsAssets> {
  const [style, script] = await Promise.all(
    ["swagger-ui.css", "swagger-ui-bundle.js"].map((name) =>
      readFile(require.resolve(`swagger-ui-dist/${name}`)),
    ),
  );
  if (style === undefined || script === undefined) throw new Error("swagger-ui-dist is incomplete");
  const javaScript = "text/javascript; charset=utf-8";
  return {
    page: cacheable(PAGE, "text/html; charset=utf-8"),
    files: new Map([
      ["swagger-ui.css", cacheable(style, "text/css; charset=utf-8")],
      ["swagger-ui-bundle.js", cacheable(script, javaScript)],
      ["start.js", cacheable(START, javaScript)],
    ]),
  };
}
