import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative } from "node:path";
import { parse, parseAllDocuments } from "yaml";
import { type Manifest, renderFolder } from "../k8s/render.ts";

/** What one component adds, as its files say. */
interface Component {
  /** Its path below `components/`. */
  name: string;
  /** `Kind/name` of its objects. */
  objects: string[];
  /** Names of the volumes that its patches add. */
  volumes: string[];
  /** Names of the variables that it adds. */
  variables: ReadonlySet<string>;
}

interface Kustomization {
  resources?: string[];
  components?: string[];
  patches?: { path: string }[];
  configMapGenerator?: { name: string; behavior?: string; literals?: string[] }[];
}

const keyOf = ({ kind, metadata }: Manifest) => `${kind}/${metadata.name}`;

/** The production overlay with every component there is, and which component each part is of. */
export class Overlay {
  readonly components: readonly Component[];
  readonly manifests: readonly Manifest[];
  readonly #k8s: string;

  /** @param k8s the folder `deploy/k8s`. */
  constructor(k8s: string) {
    this.#k8s = k8s;
    const folder = join(k8s, "components");
    this.components = readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((path) => basename(path) === "kustomization.yaml")
      .map((path) => ({ name: dirname(path), ...added(join(folder, dirname(path))) }));
    const used = new Set(this.#used("overlays/production"));
    const ingress = this.components.find(({ name }) => name === "ingress")?.objects ?? [];
    const others = this.components
      .map(({ name }) => name)
      .filter((name) => !used.has(name) && name !== "ingress");
    this.manifests = [
      ...this.render("overlays/production", others),
      // Beside the base alone: it is an alternative to production's.
      ...this.render("base", ["ingress"]).filter((manifest) => ingress.includes(keyOf(manifest))),
    ];
  }

  /** With these components besides the folder's own. */
  render(resource: string, components: readonly string[]): Manifest[] {
    const folder = mkdtempSync(join(tmpdir(), "gatehouse-chart-"));
    try {
      const path = (name: string) => relative(folder, join(this.#k8s, name));
      const kustomization = {
        namespace: "gatehouse",
        resources: [path(resource)],
        components: components.map((name) => path(join("components", name))),
      };
      writeFileSync(join(folder, "kustomization.yaml"), JSON.stringify(kustomization));
      return renderFolder(folder);
    } finally {
      rmSync(folder, { recursive: true });
    }
  }

  read(file: string): string {
    return readFileSync(join(this.#k8s, "overlays", "production", file), "utf8");
  }

  #used(folder: string): string[] {
    const { components = [] } = kustomizationIn(join(this.#k8s, folder));
    return components.map((path) => path.replace("../../components/", ""));
  }
}

function kustomizationIn(folder: string): Kustomization {
  return parse(readFileSync(join(folder, "kustomization.yaml"), "utf8")) as Kustomization;
}

function added(folder: string): Omit<Component, "name"> {
  const { resources = [], patches = [], configMapGenerator = [], components = [] } = kustomizationIn(folder);
  const documents = (file: string) =>
    parseAllDocuments(readFileSync(join(folder, file), "utf8")).map(
      (document) => document.toJS() as Manifest,
    );
  const maps = configMapGenerator.filter(({ behavior }) => behavior !== "merge");
  const below = components.map((path) => added(join(folder, path)));
  return {
    objects: [
      ...resources.flatMap(documents).map(keyOf),
      ...maps.map(({ name }) => `ConfigMap/${name}`),
      ...below.flatMap(({ objects }) => objects),
    ],
    volumes: patches
      .flatMap(({ path }) => documents(path))
      .flatMap(({ spec }) => spec.template.spec.volumes.map(({ name }: { name: string }) => name)),
    variables: new Set(
      configMapGenerator
        .flatMap(({ literals = [] }) => literals)
        .map((literal) => literal.slice(0, literal.indexOf("="))),
    ),
  };
}
