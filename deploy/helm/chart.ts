import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import { Overlay } from "./overlay.ts";
import { Templates } from "./templates.ts";
import { filledValues, type Image, policyNames, valuesSchema } from "./values.ts";

const HERE = import.meta.dirname;

/** Writes the chart of the production overlay. @param k8s its folder `deploy/k8s`. @param folder which is made. */
export function writeChart(k8s: string, folder: string, version: string): void {
  const overlay = new Overlay(k8s);
  const { images } = parse(overlay.read("kustomization.yaml")) as { images: [Image] };
  const [image] = images;
  const templates = join(folder, "templates");
  mkdirSync(templates, { recursive: true });
  const values = filledValues(readFileSync(join(HERE, "values.yaml"), "utf8"), overlay, image);
  writeFileSync(join(folder, "values.yaml"), values);
  writeFileSync(
    join(folder, "values.schema.json"),
    `${JSON.stringify(valuesSchema(values), undefined, 2)}\n`,
  );
  const outside = policyNames(overlay);
  const suffix = `-${version.replaceAll(".", "-")}`;
  for (const [file, text] of new Templates(overlay, { image: image.newName, suffix }).all(outside)) {
    writeFileSync(join(templates, file), text);
  }
  for (const file of ["NOTES.txt", "_helpers.tpl", "network-policies.yaml"])
    copyFileSync(join(HERE, file), join(templates, file));
  const chart = {
    apiVersion: "v2",
    name: "gatehouse",
    description: "An authentication gateway and its services",
    type: "application",
    version,
    appVersion: version,
    kubeVersion: ">=1.30.0-0",
  };
  writeFileSync(join(folder, "Chart.yaml"), stringify(chart));
}
