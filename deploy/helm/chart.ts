import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { readOverlay } from "./overlay.ts";
import { templatesOf } from "./templates.ts";
import { filledValues, valuesSchema } from "./values.ts";

const HERE = import.meta.dirname;

/** Writes the chart of the production overlay. @param k8s its folder `deploy/k8s`. @param folder which is made. */
export function writeChart(k8s: string, folder: string, version: string): void {
  const overlay = readOverlay(k8s, `-${version.replaceAll(".", "-")}`);
  const values = filledValues(readFileSync(join(HERE, "values.yaml"), "utf8"), overlay);
  const schema = JSON.stringify(valuesSchema(parse(values)), undefined, 2);
  const templates = join(folder, "templates");
  mkdirSync(templates, { recursive: true });
  writeFileSync(join(folder, "values.yaml"), values);
  writeFileSync(join(folder, "values.schema.json"), `${schema}\n`);
  for (const [file, text] of templatesOf(overlay, parse(values))) writeFileSync(join(templates, file), text);
  for (const file of ["NOTES.txt", "_helpers.tpl", "ingress.yaml", "network-policies.yaml"])
    copyFileSync(join(HERE, file), join(templates, file));
  const about = readFileSync(join(HERE, "Chart.yaml"), "utf8");
  writeFileSync(join(folder, "Chart.yaml"), `${about}version: ${version}\nappVersion: ${version}\n`);
}
