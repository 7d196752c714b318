import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Ajv } from "ajv";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse, parseAllDocuments, stringify } from "yaml";
import { writeChart } from "#deploy/helm/chart.ts";
import { named, workloadsOf } from "#deploy/k8s/manifests.ts";
import {
  FIRST_ADMINISTRATOR,
  FURTHER_DATABASES,
  hasKubectl,
  type Manifest,
  renderFolder,
  renderProduction,
  SENTINELS,
  SIEM,
} from "#deploy/k8s/render.ts";
import { hasTools } from "../support/house/tools.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");
const K8S = join(ROOT, "deploy", "k8s");
const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
const TIMEOUT_MS = 120_000;
const MONITORING = ["--api-versions", "monitoring.coreos.com/v1"];

const isHere = hasKubectl();
const hasHelm = isHere && spawnSync("helm", ["version"], { stdio: "ignore" }).status === 0;

let work: string;
let chart: string;
beforeAll(() => {
  work = mkdtempSync(join(tmpdir(), "gatehouse-chart-"));
  chart = join(work, "gatehouse");
  if (isHere) writeChart(K8S, chart, version);
}, TIMEOUT_MS);
afterAll(() => rmSync(work, { recursive: true }));

const values = () => parse(readFileSync(join(chart, "values.yaml"), "utf8"));

/** What Helm makes of the chart, with these values besides its own. */
function template(own: object, options: readonly string[] = MONITORING): Manifest[] {
  const file = join(work, "own.yaml");
  writeFileSync(file, stringify(own));
  const text = execFileSync(
    "helm",
    [
      "template",
      "auth",
      chart,
      "--namespace",
      "gatehouse",
      "--kube-version",
      "1.30",
      "--values",
      file,
      ...options,
    ],
    { encoding: "utf8", stdio: "pipe", maxBuffer: 64 * 1024 * 1024 },
  );
  return parseAllDocuments(text)
    .map((document) => document.toJS() as Manifest | null)
    .filter((manifest) => manifest !== null);
}

/** By kind and name, without what each tool adds in its own way to restart pods, to run Jobs again, and to keep a claim. */
function plain(manifests: readonly Manifest[]): Map<string, Manifest> {
  const hashed = manifests
    .filter(({ kind, metadata }) => kind === "ConfigMap" && /-[bcdfghkmt2-9]{10}$/.test(metadata.name))
    .map(({ metadata }) => metadata.name);
  const jobs = new RegExp(`(-${version.replaceAll(".", "-")})-[0-9a-f]{8}(?=")`, "g");
  return new Map(
    manifests
      .filter(({ kind }) => kind !== "Namespace")
      .map((manifest) => {
        let text = JSON.stringify(manifest).replaceAll(jobs, "$1");
        for (const name of hashed) text = text.replaceAll(`"${name}"`, `"${name.slice(0, -11)}"`);
        const one = JSON.parse(text) as Manifest;
        delete one.spec?.template?.metadata.annotations;
        if (one.kind === "PersistentVolumeClaim") delete one.metadata.annotations;
        return [`${one.kind}/${one.metadata.name}`, one];
      }),
  );
}

/** The production overlay with other components. */
function production(change: (components: string[]) => string[]): Manifest[] {
  const copy = mkdtempSync(join(work, "deploy-"));
  cpSync(join(ROOT, "deploy", "monitoring"), join(copy, "monitoring"), { recursive: true });
  cpSync(K8S, join(copy, "k8s"), { recursive: true });
  const folder = join(copy, "k8s", "overlays", "production");
  const file = join(folder, "kustomization.yaml");
  const kustomization = parse(readFileSync(file, "utf8"));
  kustomization.components = change(kustomization.components);
  if (!kustomization.components.includes("../../components/gateway-api"))
    kustomization.patches = kustomization.patches.filter(
      ({ path }: { path?: string }) => path !== "http-route.yaml",
    );
  writeFileSync(file, stringify(kustomization));
  return renderFolder(folder);
}

describe.skipIf(!isHere)("the values of the chart (skipped without kubectl)", () => {
  const problems = (own: object) => {
    const validate = new Ajv({ strict: false }).compile(
      JSON.parse(readFileSync(join(chart, "values.schema.json"), "utf8")),
    );
    validate({ ...values(), ...own });
    return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
  };

  test("are what their schema allows", () => {
    expect(problems({})).toEqual([]);
    expect(
      problems({ prometheus: { enabled: false }, image: { digest: `sha256:${"0".repeat(64)}` } }),
    ).toEqual([]);
  });

  test.each([
    [{ hosts: "auth.example.com" }, " must NOT have additional properties"],
    [{ redis: { enable: true } }, "/redis must NOT have additional properties"],
    [{ gateway: { env: { ALLOWED_HOST: "a.example" } } }, "/gateway/env must NOT have additional properties"],
    [
      { migrations: { token: { env: { DATABASE: "x" } } } },
      "/migrations/token/env must NOT have additional properties",
    ],
    [{ gateway: { env: { MAX_CONNECTIONS: 5 } } }, "/gateway/env/MAX_CONNECTIONS must be string"],
    [{ image: { digest: "latest" } }, '/image/digest must match pattern "^(sha256:[0-9a-f]{64})?$"'],
    [
      { auditService: { logs: [{ number: 1, uri: "x" }] } },
      "/auditService/logs/0 must NOT have additional properties",
    ],
    [{ prometheus: { enabled: "yes" } }, "/prometheus/enabled must be equal to one of the allowed values"],
  ])("%j is refused", (own, problem) => {
    expect(problems(own)).toContain(problem);
  });

  test("are each read by a template", () => {
    const folder = join(chart, "templates");
    const text = readdirSync(folder)
      .map((name) => readFileSync(join(folder, name), "utf8"))
      .join("\n");
    const { properties } = JSON.parse(readFileSync(join(chart, "values.schema.json"), "utf8"));
    const { secrets, global, ...others } = properties;
    // Variables are read together.
    const paths = leaves(others, ".Values").map((path) => path.replace(/\.env\..*$/, ".env"));
    expect(paths).toContain(".Values.gateway.spool.storageClass");
    const reads = [
      ...paths.filter((path) => !path.startsWith(".Values.pod.")),
      ...Object.keys(secrets.properties).map((name) => `index .Values.secrets "${name}"`),
    ];
    // `$` is the root within a range; a helper reads `image` and `prometheus`.
    const read = (path: string) => new RegExp(`${RegExp.escape(path)}(?![\\w.])`).test(text);
    expect(
      reads.filter((path) => !read(path) && !/certManager\.issuer|externalSecrets\.store/.test(path)),
    ).toEqual([]);
  });
});

/** The paths of what has no properties of its own. */
function leaves(properties: Record<string, { properties?: object }>, above: string): string[] {
  return Object.entries(properties).flatMap(([key, { properties: below }]) =>
    below === undefined ? [`${above}.${key}`] : leaves(below as typeof properties, `${above}.${key}`),
  );
}

describe.skipIf(!hasHelm)("the chart (skipped without helm and kubectl)", { timeout: TIMEOUT_MS }, () => {
  test("is the production overlay, object by object", () => {
    const expected = plain(production((components) => components));
    const made = plain(template({}));
    expect([...made.keys()].sort()).toEqual([...expected.keys()].sort());
    for (const [name, manifest] of expected) expect(made.get(name), name).toEqual(manifest);
  });

  test.each([
    ["certManager", ["cert-manager"]],
    ["externalSecrets", ["external-secrets"]],
    ["prometheus", ["prometheus"]],
    ["checkpointFile", ["checkpoint-file"]],
    ["redis", ["redis", "external-secrets/redis"]],
    ["smtpPassword", ["smtp-password", "external-secrets/smtp-password"]],
    ["identityProviders", ["identity-providers", "external-secrets/identity-providers"]],
  ])("without %s is the overlay without its components", (value, gone) => {
    const manifests = production((all) =>
      all.filter(
        (path) =>
          !gone.some(
            (name) =>
              path.endsWith(`components/${name}`) ||
              (name === "external-secrets" && path.includes(`/${name}/`)),
          ),
      ),
    );
    // What is only for the component, and goes with it in the chart.
    const [variable, policy] =
      { redis: ["REDIS_URL", "redis"], identityProviders: ["OAUTH_RETURN_TO", "identity-providers"] }[
        value
      ] ?? [];
    const expected = plain(manifests);
    expected.delete(`NetworkPolicy/${policy}`);
    if (value === "identityProviders") expected.delete("ConfigMap/identity-providers");
    for (const { data = {} } of expected.values()) delete data[variable ?? ""];
    expect(Object.fromEntries(plain(template({ [value]: { enabled: false } })))).toEqual(
      Object.fromEntries(expected),
    );
  });

  test("with an Ingress is the overlay with that component instead of the Gateway API's", () => {
    const expected = plain(
      production((all) => all.map((path) => path.replace(/components\/gateway-api$/, "components/ingress"))),
    );
    const own = {
      gatewayApi: { enabled: false },
      ingress: { enabled: true },
      proxyNamespace: "projectcontour",
    };
    expect(Object.fromEntries(plain(template(own)))).toEqual(Object.fromEntries(expected));
  });

  test("with the first administrator is the overlay with those components", () => {
    const own = { firstAdministrator: { enabled: true, email: "admin@example.com" } };
    const expected = plain(renderProduction(K8S, FIRST_ADMINISTRATOR));
    expect(named([...expected.values()], "ConfigMap", "identity-service-settings").data).toHaveProperty(
      "BOOTSTRAP_ADMIN_EMAIL",
    );
    expect(Object.fromEntries(plain(template(own)))).toEqual(Object.fromEntries(expected));
  });

  test("under Sentinel is the overlay with those components", () => {
    const expected = plain(renderProduction(K8S, SENTINELS));
    const own = {
      redis: { url: SENTINELS.settings["gateway-settings"]?.replace("REDIS_URL=", "") },
      redisSentinel: { enabled: true },
      networkPolicies: { redis: expected.get("NetworkPolicy/redis")?.spec },
    };
    expect(Object.fromEntries(plain(template(own)))).toEqual(Object.fromEntries(expected));
  });

  test("with files for the SIEM is the overlay with that component", () => {
    const expected = plain(renderProduction(K8S, SIEM));
    expect(Object.fromEntries(plain(template({ siem: { enabled: true } })))).toEqual(
      Object.fromEntries(expected),
    );
  });

  test("with further databases is the overlay with those components", () => {
    const expected = plain(renderProduction(K8S, FURTHER_DATABASES));
    const list = (name: string) =>
      Object.values(parse(expected.get(`ConfigMap/${name}`)?.data[`${name.split("-")[1]}.yaml`]))[0];
    const own = { auditService: { logs: list("audit-logs") }, tokenService: { parts: list("token-parts") } };
    expect(Object.fromEntries(plain(template(own)))).toEqual(Object.fromEntries(expected));
    const writing = template({ ...own, gateway: { env: { AUDIT_LOGS: "1,2" } } });
    expect(named(writing, "ConfigMap", "gateway-settings").data.AUDIT_LOGS).toBe("1,2");
  });

  test("has alerts and dashboards only where the cluster knows their kinds, or where they are asked for", () => {
    const kinds = (own: object, options?: string[]) => template(own, options).map(({ kind }) => kind);
    expect(kinds({}, [])).not.toContain("PrometheusRule");
    expect(kinds({}, MONITORING)).toContain("PrometheusRule");
    expect(kinds({ prometheus: { enabled: true } }, [])).toContain("PrometheusRule");
    expect(kinds({ prometheus: { enabled: false } }, MONITORING)).not.toContain("PodMonitor");
  });

  test("puts values where they belong, and is what Kubernetes' schemas allow", async () => {
    const digest = `sha256:${"1f".repeat(32)}`;
    const made = template({
      host: "id.example.org",
      image: { repository: "r.example.org/gatehouse", digest },
      env: { OTEL_EXPORTER_OTLP_ENDPOINT: null },
      gateway: {
        maxReplicas: 7,
        spool: { size: "4Gi", storageClass: "fast" },
        env: { MAX_CONNECTIONS: "5", DRAIN_DELAY_MS: "9" },
      },
      pod: {
        nodeSelector: { disk: "ssd" },
        tolerations: [{ key: "a", operator: "Exists" }],
        imagePullSecrets: [{ name: "pull" }],
      },
      secrets: { "token-keys": "keys-of-tokens" },
      networkPolicies: { traces: null, verifiers: { podSelector: {}, policyTypes: ["Ingress"] } },
      identityProviders: { secretKeys: ["one", "other"] },
    });
    if (hasTools) {
      const { schemaProblems } = await import("#tools/manifest-schemas.ts");
      expect(made.flatMap(schemaProblems)).toEqual([]);
    }
    const { data } = named(made, "ConfigMap", "gateway-settings");
    expect(data).toMatchObject({
      ALLOWED_HOSTS: "id.example.org",
      RATE_LIMIT_REPLICAS: "7",
      MAX_CONNECTIONS: "5",
      DRAIN_DELAY_MS: "9",
    });
    expect(data).not.toHaveProperty("OTEL_EXPORTER_OTLP_ENDPOINT");
    expect(named(made, "ConfigMap", "token-service-settings").data.TOKEN_ISSUER).toBe(
      "https://id.example.org",
    );
    expect(named(made, "HTTPRoute", "gateway").spec.hostnames).toEqual(["id.example.org"]);
    const workloads = workloadsOf(made);
    expect(workloads).toHaveLength(9);
    for (const { pod } of workloads) {
      expect(pod).toMatchObject({ nodeSelector: { disk: "ssd" }, imagePullSecrets: [{ name: "pull" }] });
      for (const { image } of [...pod.containers, ...(pod.initContainers ?? [])])
        expect(image).toBe(`r.example.org/gatehouse@${digest}`);
    }
    expect(named(made, "StatefulSet", "gateway").spec.volumeClaimTemplates[0].spec).toMatchObject({
      storageClassName: "fast",
      resources: { requests: { storage: "4Gi" } },
    });
    expect(JSON.stringify(named(made, "Deployment", "token-service"))).toContain(
      '"secretName":"keys-of-tokens"',
    );
    expect(named(made, "ExternalSecret", "token-keys").spec.target.name).toBe("keys-of-tokens");
    expect(named(made, "ExternalSecret", "identity-providers").spec.data).toHaveLength(2);
    const policies = made.filter(({ kind }) => kind === "NetworkPolicy").map(({ metadata }) => metadata.name);
    expect(policies).not.toContain("traces");
    expect(policies).toContain("mail");
  });

  test("restarts the pods whose settings change, and no others; and migrates again with another image", () => {
    const checksums = (own: object) =>
      Object.fromEntries(
        workloadsOf(template(own)).map(({ kind, name, manifest }) => [
          kind === "Job" ? name.slice(0, "migrate-token".length) : name,
          kind === "Job" ? name : manifest.spec.template.metadata.annotations["checksum/config"],
        ]),
      );
    const changed = (own: object) => {
      const [before, after] = [checksums({}), checksums(own)];
      return Object.keys(before).filter((name) => before[name] !== after[name]);
    };
    expect(changed({ access: "roles: {}" })).toEqual([]);
    expect(changed({ routes: "routes: []" })).toEqual(["gateway"]);
    expect(changed({ auditService: { env: { AUDIT_RETENTION_MONTHS: "3" } } })).toEqual(["audit-service"]);
    expect(changed({ identityProviders: { file: "providers: []" } })).toEqual(["identity-service"]);
    expect(changed({ image: { tag: "0.1.1" } }).every((name) => name.startsWith("migrate"))).toBe(true);
    expect(changed({ image: { tag: "0.1.1" } })).toHaveLength(4);
    const logs = [{ number: 1, url: "postgres://audit-1.example.internal:5432/audit" }];
    const withLogs = changed({ auditService: { logs } });
    expect(withLogs.filter((name) => !name.startsWith("migrate"))).toEqual(["audit-service", "gateway"]);
    expect(withLogs).toHaveLength(6);
  });

  test("goes into the namespace of the release", () => {
    const text = JSON.stringify(template({}, [...MONITORING, "--namespace", "elsewhere"]));
    expect(text).not.toContain('"namespace":"gatehouse"');
    expect(text).toContain('"namespace":"elsewhere"');
  });
});
