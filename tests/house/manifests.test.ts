import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { type Container, named, ofKind, type Workload, workloadsOf } from "#deploy/k8s/manifests.ts";
import {
  FURTHER_DATABASES,
  hasKubectl,
  type Manifest,
  OVERLAYS,
  renderFolder,
  renderOverlay,
  renderProduction,
  SENTINELS,
  SIEM,
} from "#deploy/k8s/render.ts";
import { POLICIES, type Policy } from "../support/house/manifest-policies.ts";
import { hasTools } from "../support/house/tools.ts";

const K8S = resolve(import.meta.dirname, "..", "..", "deploy", "k8s");
const isHere = hasKubectl();

const rendered: Readonly<Record<string, readonly Manifest[]>> = isHere
  ? Object.fromEntries([
      ...OVERLAYS.map((name) => [name, renderOverlay(name)]),
      ["sentinels", renderProduction(K8S, SENTINELS)],
      ["databases", renderProduction(K8S, FURTHER_DATABASES)],
      ["siem", renderProduction(K8S, SIEM)],
      ["ingress", renderIngress()],
    ])
  : {};
const policies = Object.entries(POLICIES) as [keyof typeof POLICIES, Policy][];

/** DATABASE_POOL_SIZE where nothing else is said. */
const DEFAULT_POOL_SIZE = 10;

/** What a pod asks for: the larger of its containers together and the largest that runs before them. */
function podMilliCores({ pod }: Workload): number {
  const milliCores = ({ resources }: Container) => Number(resources.requests.cpu.replace(/m$/, ""));
  const together = pod.containers.map(milliCores).reduce((sum: number, part: number) => sum + part, 0);
  return Math.max(together, ...(pod.initContainers ?? []).map(milliCores));
}

/** The component that no overlay has: only one way in at a time. */
function renderIngress(): Manifest[] {
  const folder = mkdtempSync(join(tmpdir(), "gatehouse-ingress-"));
  try {
    const path = (name: string) => JSON.stringify(relative(folder, join(K8S, name)));
    const lines = [`resources: [${path("base")}]`, `components: [${path("components/ingress")}]`];
    writeFileSync(join(folder, "kustomization.yaml"), lines.join("\n"));
    return renderFolder(folder).filter(
      ({ kind, metadata }) => kind === "Ingress" || metadata.name.includes("clients"),
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function printedSecrets(): { items: Manifest[] } {
  const script = join(K8S, "print-trial-secrets.ts");
  return JSON.parse(execFileSync(process.execPath, [script], { encoding: "utf8" }));
}

describe.skipIf(!isHere)("manifests (skipped where there is no kubectl)", () => {
  test("every component is rendered by an overlay or above", () => {
    const added = [SENTINELS, FURTHER_DATABASES, SIEM].flatMap(({ components }) => components);
    const used = new Set([...OVERLAYS.flatMap(componentsOf), ...added, "ingress"]);
    const all = readdirSync(join(K8S, "components"), { recursive: true, encoding: "utf8" })
      .filter((path) => path.endsWith("kustomization.yaml"))
      .map((path) => path.replace("/kustomization.yaml", ""));
    // The first administrator's password is development's; production takes it in for a while.
    expect(all.filter((name) => !used.has(name))).toEqual(["external-secrets/first-administrator"]);
  });

  describe.skipIf(!hasTools)("and Kubernetes' schemas (skipped where tools/ is not installed)", () => {
    test.each(["production", "development", "sentinels", "databases", "siem", "ingress"])(
      "%s is what they allow",
      async (name) => {
        const { schemaProblems } = await import("#tools/manifest-schemas.ts");
        const manifests = rendered[name] ?? [];
        expect(manifests.length).toBeGreaterThan(0);
        expect(manifests.flatMap(schemaProblems)).toEqual([]);
      },
    );

    test("no member is misspelt", async () => {
      const { unknownMembers } = await import("#tools/manifest-schemas.ts");
      expect(unknownMembers(Object.values(rendered).flat())).toEqual([]);
    });

    test("the script's secrets are what kubectl takes", async () => {
      const { schemaProblems, unknownMembers } = await import("#tools/manifest-schemas.ts");
      const { items } = printedSecrets();
      expect(items.flatMap(schemaProblems)).toEqual([]);
      expect(unknownMembers(items)).toEqual([]);
    });

    test("a misspelt member and a wrong type are found", async () => {
      const { schemaProblems, unknownMembers } = await import("#tools/manifest-schemas.ts");
      const manifest = structuredClone(named(rendered.production ?? [], "Deployment", "token-service"));
      manifest.spec.template.spec.containers[0].readinesProbe = {};
      expect(unknownMembers([manifest]).join()).toContain("readinesProbe");
      manifest.spec.template.spec.terminationGracePeriodSeconds = "40";
      expect(schemaProblems(manifest).join()).toContain("terminationGracePeriodSeconds must be integer");
    });

    test("what has no schema is known by name", async () => {
      const { CUSTOM_KINDS } = await import("#tools/manifest-schemas.ts");
      const kinds = Object.values(rendered).flatMap((manifests) => manifests.map(({ kind }) => kind));
      expect(CUSTOM_KINDS.filter((kind) => !kinds.includes(kind))).toEqual([]);
    });
  });

  test("the script's secrets are made anew each time", () => {
    const [first, second] = [printedSecrets().items, printedSecrets().items];
    expect(new Set(first.map(({ metadata }) => metadata.namespace))).toEqual(new Set(["gatehouse"]));
    const values = [...first, ...second].flatMap(({ stringData }) => Object.entries(stringData));
    const secrets = values.filter(([key]) => !key.endsWith(".crt")).map(([, value]) => value);
    expect(new Set(secrets).size).toBe(secrets.length);
  });

  test("every alert and every dashboard is in the manifests of production", () => {
    const manifests = rendered.production ?? [];
    const monitoring = join(K8S, "..", "monitoring");
    const file = parse(readFileSync(join(monitoring, "gatehouse.rules.yaml"), "utf8"));
    expect(ofKind(manifests, "PrometheusRule").map(({ spec }) => spec)).toEqual([file]);
    const shown = ofKind(manifests, "ConfigMap").filter(
      ({ metadata }) => metadata.labels?.grafana_dashboard === "1",
    );
    const files = readdirSync(join(monitoring, "dashboards"));
    expect(Object.assign({}, ...shown.map(({ data }) => data))).toEqual(
      Object.fromEntries(
        files.map((name) => [name, readFileSync(join(monitoring, "dashboards", name), "utf8")]),
      ),
    );
    expect(shown.length).toBe(files.length);
  });

  for (const overlay of [...OVERLAYS, "sentinels", "databases"]) {
    test.each(policies)(`${overlay}: %s`, (_, policy) => {
      expect(policy(rendered[overlay] ?? [])).toEqual([]);
    });
  }

  test("in production a drain of one node is no outage: two replicas at least beside each disruption budget", () => {
    const scalers = ofKind(rendered.production ?? [], "HorizontalPodAutoscaler");
    const budgets = ofKind(rendered.production ?? [], "PodDisruptionBudget");
    expect(budgets.length).toBeGreaterThan(0);
    const least = budgets.map(({ metadata }) => [
      metadata.name,
      scalers.find(({ spec }) => spec.scaleTargetRef.name === metadata.name)?.spec.minReplicas ?? 0,
    ]);
    expect(least.filter(([, replicas]) => replicas < 2)).toEqual([]);
  });

  test("development fits two cores beside a single-node control plane, with every rollout's surplus replica", () => {
    const manifests = rendered.development ?? [];
    // The example and what stands in for databases and mail are not what anybody rolls out.
    const rolled = ["identity-service", "token-service", "audit-service", "event-service"];
    const asked = workloadsOf(manifests).map((workload) => {
      const scaler = ofKind(manifests, "HorizontalPodAutoscaler").find(
        ({ spec }) =>
          spec.scaleTargetRef.kind === workload.kind && spec.scaleTargetRef.name === workload.name,
      );
      const replicas = scaler?.spec.maxReplicas ?? workload.manifest.spec.replicas ?? 1;
      return (replicas + (rolled.includes(workload.name) ? 1 : 0)) * podMilliCores(workload);
    });
    // kubeadm's control plane, CoreDNS and a network plug-in ask for 950 of 2,000 thousandths of a core.
    expect(asked.reduce((sum, milliCores) => sum + milliCores, 0)).toBeLessThanOrEqual(1050);
  });

  test.each(["identity-service", "token-service", "event-service"])(
    "the README says how many connections %s may open",
    (name) => {
      const manifests = rendered.production ?? [];
      const scaler = ofKind(manifests, "HorizontalPodAutoscaler").find(
        ({ spec }) => spec.scaleTargetRef.name === name,
      );
      const { maxSurge } = named(manifests, "Deployment", name).spec.strategy.rollingUpdate;
      const readme = readFileSync(join(K8S, "README.md"), "utf8");
      const said = new RegExp(`(\\d+) for \`${name}\``).exec(readme)?.[1];
      expect(Number(said)).toBe((scaler?.spec.maxReplicas + maxSurge) * DEFAULT_POOL_SIZE);
    },
  );

  type Break = (manifests: Manifest[]) => void;
  /** Sets a member of a manifest, by its path: `spec.ports.0.port`. */
  const inManifest =
    (kind: string, name: string, path: string, value: unknown): Break =>
    (manifests) => {
      const keys = path.split(".");
      const last = keys.pop() ?? "";
      // biome-ignore lint/suspicious/noExplicitAny: each breaks Kubernetes' shapes in its own way
      const parent = keys.reduce<any>((member, key) => member[key], named(manifests, kind, name));
      parent[last] = value;
    };
  const inPod = (path: string, value: unknown) =>
    inManifest("Deployment", "token-service", `spec.template.spec.${path}`, value);
  const inContainer = (path: string, value: unknown) => inPod(`containers.0.${path}`, value);
  const podOf = (manifests: Manifest[]) => named(manifests, "Deployment", "token-service").spec.template.spec;
  const without =
    (kind: string, name: string): Break =>
    (manifests) => {
      manifests.splice(manifests.indexOf(named(manifests, kind, name)), 1);
    };
  const BREAKS: Record<keyof typeof POLICIES, Record<string, Break>> = {
    "nothing runs as root": {
      "a pod that may be root": inPod("securityContext.runAsNonRoot", false),
      "user 0": inContainer("securityContext.runAsUser", 0),
      "a user by the image's name": inPod("securityContext.runAsUser", undefined),
    },
    "nothing has rights of the host": {
      privileged: inContainer("securityContext.privileged", true),
      escalation: inContainer("securityContext.allowPrivilegeEscalation", undefined),
      capabilities: inContainer("securityContext.capabilities", {}),
      "no seccomp": inPod("securityContext.seccompProfile", undefined),
      "the host's network": inPod("hostNetwork", true),
      "a host port": inContainer("ports.0.hostPort", 80),
    },
    "the root file system is read-only": {
      "a writable root": inContainer("securityContext.readOnlyRootFilesystem", false),
      "in an init container": inPod("initContainers.0.securityContext.readOnlyRootFilesystem", undefined),
    },
    "an image has a version": {
      latest: inContainer("image", "registry.example.com:5000/gatehouse:latest"),
      "no tag": inContainer("image", "registry.example.com:5000/gatehouse"),
    },
    "resources are asked for and limited": {
      "no memory limit": inContainer("resources.limits.memory", undefined),
      "no resources": inContainer("resources", undefined),
    },
    "no secret is in an environment": {
      "a Secret as variables": (manifests) =>
        podOf(manifests).containers[0].envFrom.push({ secretRef: { name: "token-keys" } }),
      "one key as a variable": inContainer("env", [
        { name: "X", valueFrom: { secretKeyRef: { name: "token-keys", key: "k" } } },
      ]),
      "a password in clear": inContainer("env", [{ name: "REDIS_PASSWORD", value: "x" }]),
      "a password in a URL": inContainer("env", [{ name: "DATABASE_URL", value: "postgres://a:b@c/d" }]),
    },
    "no secret is in a manifest": {
      "a Secret": (manifests) => {
        manifests.push({ apiVersion: "v1", kind: "Secret", metadata: { name: "s", namespace: "gatehouse" } });
      },
    },
    "claim templates say what the server would add": {
      "no volume mode": (manifests) => {
        const [claim] = named(manifests, "StatefulSet", "gateway").spec.volumeClaimTemplates;
        delete claim.spec.volumeMode;
      },
    },
    "volumes are of the cluster, not of the host": {
      "a host path": (manifests) => podOf(manifests).volumes.push({ name: "h", hostPath: { path: "/" } }),
      "a folder without a limit": (manifests) => podOf(manifests).volumes.push({ name: "h", emptyDir: {} }),
      "a claim for one node only, of replicas on several": inManifest(
        "PersistentVolumeClaim",
        "audit-checkpoints",
        "spec.accessModes",
        ["ReadWriteOnce"],
      ),
      "a claim that nobody makes": without("PersistentVolumeClaim", "audit-checkpoints"),
    },
    "secrets are files for their reader only": {
      "readable to all": (manifests) => {
        podOf(manifests).volumes.find(({ name }: { name: string }) => name === "redis").secret.defaultMode =
          0o444;
      },
      "a subPath": inContainer("volumeMounts.0.subPath", "tls.crt"),
    },
    "what serves is probed": {
      "no readiness probe": inContainer("readinessProbe", undefined),
      "no liveness probe": inContainer("livenessProbe", undefined),
      "liveness by dependencies": inContainer("livenessProbe", { grpc: { port: 50062 } }),
    },
    "a port that is named is there": {
      "in a probe": inContainer("livenessProbe.httpGet.port", "admin"),
      "in a Service": inManifest("Service", "token-service", "spec.ports.0.targetPort", "http"),
      "in a policy": inManifest("NetworkPolicy", "token-service", "spec.ingress.0.ports.0.port", "http"),
    },
    "no token of the cluster is mounted": {
      "a pod's token": inPod("automountServiceAccountToken", undefined),
      "an account's token": inManifest("ServiceAccount", "gateway", "automountServiceAccountToken", true),
      "the default account": inPod("serviceAccountName", undefined),
    },
    "what is scaled survives a node's drain": {
      "no budget": without("PodDisruptionBudget", "token-service"),
      "no spread": (manifests) => podOf(manifests).topologySpreadConstraints.pop(),
      "nodes that take none count as empty": inPod("topologySpreadConstraints.0.nodeTaintsPolicy", undefined),
      "fewer while rolling": inManifest(
        "Deployment",
        "token-service",
        "spec.strategy.rollingUpdate.maxUnavailable",
        1,
      ),
      "replicas by hand": inManifest("Deployment", "token-service", "spec.replicas", 2),
    },
    "what scales something finds it": {
      "another name": inManifest(
        "HorizontalPodAutoscaler",
        "gateway",
        "spec.scaleTargetRef.kind",
        "Deployment",
      ),
    },
    "what nobody has allowed is denied": {
      "no deny-all": without("NetworkPolicy", "deny-all"),
      "deny-all for one way only": inManifest("NetworkPolicy", "deny-all", "spec.policyTypes", ["Ingress"]),
      "a pod without a policy": inManifest("Deployment", "audit-service", "spec.template.metadata.labels", {
        a: "b",
      }),
    },
    "no network policy allows everybody": {
      "from anywhere": inManifest("NetworkPolicy", "token-service", "spec.ingress.0.from", []),
      "from all pods": inManifest("NetworkPolicy", "token-service", "spec.ingress.0.from", [
        { podSelector: {} },
      ]),
      "to the world": inManifest("NetworkPolicy", "gateway", "spec.egress.0.to", [
        { ipBlock: { cidr: "0.0.0.0/0" } },
      ]),
      "to the world and the cluster's own networks": inManifest(
        "NetworkPolicy",
        "webhooks",
        "spec.egress.0.to.0.ipBlock.except.0",
        "10.0.0.0/9",
      ),
      "any port": inManifest("NetworkPolicy", "gateway", "spec.egress.0.ports", undefined),
    },
    "people see one operator": {
      "two names": (manifests) => {
        for (const name of ["gateway", "identity-service"]) {
          const { pod } =
            workloadsOf(manifests).find(({ manifest }) => manifest.metadata.name === name) ?? {};
          pod?.containers.forEach((container: Container) => {
            container.env = [...(container.env ?? []), { name: "BRAND_NAME", value: `Shop of ${name}` }];
          });
        }
      },
    },
    "everything is in a namespace that is restricted": {
      "the default namespace": inManifest("Service", "gateway", "metadata.namespace", "default"),
      "a namespace that allows more": inManifest("Namespace", "gatehouse", "metadata.labels", {}),
    },
  };

  const breaks = policies.flatMap(([name]) =>
    Object.entries(BREAKS[name]).map(([what, change]) => [name, what, change] as const),
  );

  test.each(breaks)("%s: found is %s", (name, _, change) => {
    const manifests = structuredClone(rendered.production ?? []) as Manifest[];
    change(manifests);
    expect(POLICIES[name](manifests)).not.toEqual([]);
  });

  test("every policy has something that breaks it", () => {
    const broken = new Set(breaks.map(([name]) => name));
    expect(policies.map(([name]) => name).filter((name) => !broken.has(name))).toEqual([]);
  });

  test("the four services scale, and each has an account of its own", () => {
    for (const overlay of OVERLAYS) {
      const manifests = rendered[overlay] ?? [];
      const scaled = ofKind(manifests, "HorizontalPodAutoscaler").map(({ spec }) => spec.scaleTargetRef.name);
      expect(scaled.sort()).toEqual([
        "audit-service",
        "event-service",
        "gateway",
        "identity-service",
        "token-service",
      ]);
      const accounts = workloadsOf(manifests)
        .filter(({ kind }) => kind !== "Job")
        .map(({ pod }) => pod.serviceAccountName);
      expect(new Set(accounts).size).toBe(accounts.length);
    }
  });
});

/** The components of an overlay, by their folders. */
function componentsOf(overlay: string): string[] {
  const text = readFileSync(join(K8S, "overlays", overlay, "kustomization.yaml"), "utf8");
  return [...text.matchAll(/^ {2}- \.\.\/\.\.\/components\/(\S+)/gm)].map((match) => match[1] ?? "");
}
