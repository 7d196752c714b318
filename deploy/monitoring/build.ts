import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { toGrafana } from "./dashboard.ts";
import { DASHBOARDS } from "./dashboards.ts";

// Writes what Grafana and the Prometheus Operator read, from dashboards.ts and gatehouse.rules.yaml.
const pathOf = (name: string) => join(import.meta.dirname, name);
for (const [name, dashboard] of Object.entries(DASHBOARDS)) {
  writeFileSync(pathOf(`dashboards/${name}.json`), `${JSON.stringify(toGrafana(dashboard), undefined, 2)}\n`);
}
const rules = readFileSync(pathOf("gatehouse.rules.yaml"), "utf8");
// The operator's `spec` has the members of a rule file.
const resource = {
  apiVersion: "monitoring.coreos.com/v1",
  kind: "PrometheusRule",
  metadata: { name: "gatehouse" },
};
const spec = rules.replaceAll(/^(?=.)/gm, "  ");
writeFileSync(
  pathOf("prometheus-rule.yaml"),
  `# Written by build.ts from gatehouse.rules.yaml.\n${stringify(resource)}spec:\n${spec}`,
);
