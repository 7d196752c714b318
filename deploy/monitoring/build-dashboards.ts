import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { toGrafana } from "./dashboard.ts";
import { DASHBOARDS } from "./dashboards.ts";

// Writes the JSON files from dashboards.ts.
for (const [name, dashboard] of Object.entries(DASHBOARDS)) {
  const file = resolve(import.meta.dirname, "dashboards", `${name}.json`);
  writeFileSync(file, `${JSON.stringify(toGrafana(dashboard), undefined, 2)}\n`);
}
