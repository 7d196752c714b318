import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { type Container, named, ofKind, type Workload, workloadsOf } from "#deploy/k8s/manifests.ts";
import { hasKubectl, type Manifest, OVERLAYS, renderFolder, renderOverlay } from "#deploy/k8s/render.ts";
import { POLICIES, type Policy } from "../support/house/manifest-policies.ts";
import { CUSTOM_KINDS, schemaProblems, unknownMembers } from "../support/house/manifest-schemas.ts";

const K8S = resolve(import.meta.dirname, "..", "..", "deploy", "k8s");
const isHere = hasKubectl();

const rendered: Readonly<Record<string, readonly Manifest[]>> = isHere
  ? Object.fromEntries([...OVERLAYS.map((name) => [name, renderOverlay(name)]), ["ingress", renderIngress()]])
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

describe.skipIf(!isHere)("manifests (skipped where there is no kubectl)", () => {
  test("every component is rendered by an overlay or above", () => {
    const used = new Set([...OVERLAYS.flatMap(componentsOf), "ingress"]);
    const all = readdirSync(join(K8S, "components"), { recursive: true, encoding: "utf8" })
      .filter((path) => path.endsWith("kustomization.yaml"))
      .map((path) => path.replace("/kustomization.yaml", ""));
    // The first administrator's password is development's; production takes it in for a while.
    expect(all.filter((name) => !used.has(name))).toEqual(["external-secrets/first-administrator"]);
  });

  test.each(["production", "development", "ingress"])("%s is what Kubernetes' schemas allow", (name) => {
    const manifests = rendered[name] ?? [];
    expect(manifests.length).toBeGreaterThan(0);
    expect(manifests.flatMap(schemaProblems)).toEqual([]);
  });

  test("the script's secrets are what kubectl takes, made anew each time", () => {
    const print = () => {
      const script = join(K8S, "print-trial-secrets.ts");
      return JSON.parse(execFileSync(process.execPath, [script], { encoding: "utf8" })) as {
        items: Manifest[];
      };
    };
    const [first, second] = [print().items, print().items];
    expect(first.flatMap(schemaProblems)).toEqual([]);
    expect(unknownMembers(first)).toEqual([]);
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

  test("no member is misspelt", () => {
    expect(unknownMembers(Object.values(rendered).flat())).toEqual([]);
  });

  test("a misspelt member and a wrong type are found", () => {
    const manifest = structuredClone(named(rendered.production ?? [], "Deployment", "token-service"));
    manifest.spec.template.spec.containers[0].readinesProbe = {};
    expect(unknownMembers([manifest]).join()).toContain("readinesProbe");
    manifest.spec.template.spec.terminationGracePeriodSeconds = "40";
    expect(schemaProblems(manifest).join()).toContain("terminationGracePeriodSeconds must be integer");
  });

  test("what has no schema is known by name", () => {
    const kinds = Object.values(rendered).flatMap((manifests) => manifests.map(({ kind }) => kind));
    expect(CUSTOM_KINDS.filter((kind) => !kinds.includes(kind))).toEqual([]);
  });

  for (const overlay of OVERLAYS) {
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
    const rolled = ["identity-service", "token-service", "audit-service"];
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

  test.each(["identity-service", "token-service"])(
    "the README says how many connections %s may open",
    (name) => {
      const manifests = rendered.production ?? [];
      const scaler = ofKind(manifests, "HorizontalPodAutoscaler").find(
        ({ spec }) => spec.scaleTargetRef.name === name,
      );
      const { maxSurge } = named(manifests, "Deployment", name).spec.strategy.rollingUpdate;
      const readme = readFileSync(join(K8S, "README.md"), "utf8");
      const said = new RegExp(`\\| \`${name}\` +\\| +(\\d+) +\\|`).exec(readme)?.[1];
      expect(Number(said)).toBe((scaler?.spec.maxReplicas + maxSurge) * DEFAULT_POOL_SIZE);
    },
  );

  // biome-ignore lint/suspicious/noExplicitAny: each breaks Kubernetes' shapes in its own way
  type Break = (m: any) => void;
  const inToken = (change: Break) => (manifests: Manifest[]) =>
    change(named(manifests, "Deployment", "token-service").spec.template.spec);
  const inContainer = (change: Break) => inToken((pod) => change(pod.containers[0]));
  const without = (kind: string, name: string) => (manifests: Manifest[]) => {
    manifests.splice(manifests.indexOf(named(manifests, kind, name)), 1);
  };
  const BREAKS: [keyof typeof POLICIES, string, (manifests: Manifest[]) => void][] = [
    [
      "nothing runs as root",
      "a pod that may be root",
      inToken((pod) => {
        pod.securityContext.runAsNonRoot = false;
      }),
    ],
    [
      "nothing runs as root",
      "user 0",
      inContainer((c) => {
        c.securityContext.runAsUser = 0;
      }),
    ],
    [
      "nothing runs as root",
      "a user by the image's name",
      inToken((pod) => {
        pod.securityContext.runAsUser = undefined;
      }),
    ],
    [
      "nothing has rights of the host",
      "privileged",
      inContainer((c) => {
        c.securityContext.privileged = true;
      }),
    ],
    [
      "nothing has rights of the host",
      "escalation",
      inContainer((c) => {
        c.securityContext.allowPrivilegeEscalation = undefined;
      }),
    ],
    [
      "nothing has rights of the host",
      "capabilities",
      inContainer((c) => {
        c.securityContext.capabilities = {};
      }),
    ],
    [
      "nothing has rights of the host",
      "no seccomp",
      inToken((pod) => {
        pod.securityContext.seccompProfile = undefined;
      }),
    ],
    [
      "nothing has rights of the host",
      "the host's network",
      inToken((pod) => {
        pod.hostNetwork = true;
      }),
    ],
    [
      "nothing has rights of the host",
      "a host port",
      inContainer((c) => {
        c.ports[0].hostPort = 80;
      }),
    ],
    [
      "the root file system is read-only",
      "a writable root",
      inContainer((c) => {
        c.securityContext.readOnlyRootFilesystem = false;
      }),
    ],
    [
      "the root file system is read-only",
      "in an init container",
      inToken((pod) => {
        pod.initContainers[0].securityContext.readOnlyRootFilesystem = undefined;
      }),
    ],
    [
      "an image has a version",
      "latest",
      inContainer((c) => {
        c.image = "registry.example.com:5000/gatehouse:latest";
      }),
    ],
    [
      "an image has a version",
      "no tag",
      inContainer((c) => {
        c.image = "registry.example.com:5000/gatehouse";
      }),
    ],
    [
      "resources are asked for and limited",
      "no memory limit",
      inContainer((c) => {
        c.resources.limits.memory = undefined;
      }),
    ],
    [
      "resources are asked for and limited",
      "no resources",
      inContainer((c) => {
        c.resources = undefined;
      }),
    ],
    [
      "no secret is in an environment",
      "a Secret as variables",
      inContainer((c) => {
        c.envFrom.push({ secretRef: { name: "token-keys" } });
      }),
    ],
    [
      "no secret is in an environment",
      "one key as a variable",
      inContainer((c) => {
        c.env = [{ name: "X", valueFrom: { secretKeyRef: { name: "token-keys", key: "k" } } }];
      }),
    ],
    [
      "no secret is in an environment",
      "a password in clear",
      inContainer((c) => {
        c.env = [{ name: "REDIS_PASSWORD", value: "x" }];
      }),
    ],
    [
      "no secret is in an environment",
      "a password in a URL",
      inContainer((c) => {
        c.env = [{ name: "DATABASE_URL", value: "postgres://a:b@c/d" }];
      }),
    ],
    [
      "no secret is in a manifest",
      "a Secret",
      (manifests) => {
        manifests.push({ apiVersion: "v1", kind: "Secret", metadata: { name: "s", namespace: "gatehouse" } });
      },
    ],
    [
      "claim templates say what the server would add",
      "no volume mode",
      (manifests) => {
        const [claim] = named(manifests, "StatefulSet", "gateway").spec.volumeClaimTemplates;
        delete claim.spec.volumeMode;
      },
    ],
    [
      "volumes are of the cluster, not of the host",
      "a host path",
      inToken((pod) => {
        pod.volumes.push({ name: "h", hostPath: { path: "/" } });
      }),
    ],
    [
      "volumes are of the cluster, not of the host",
      "a folder without a limit",
      inToken((pod) => {
        pod.volumes.push({ name: "h", emptyDir: {} });
      }),
    ],
    [
      "volumes are of the cluster, not of the host",
      "a claim for one node only, of replicas on several",
      (manifests) => {
        named(manifests, "PersistentVolumeClaim", "audit-checkpoints").spec.accessModes = ["ReadWriteOnce"];
      },
    ],
    [
      "volumes are of the cluster, not of the host",
      "a claim that nobody makes",
      without("PersistentVolumeClaim", "audit-checkpoints"),
    ],
    [
      "secrets are files for their reader only",
      "readable to all",
      inToken((pod) => {
        pod.volumes[0].secret.defaultMode = 0o444;
      }),
    ],
    [
      "secrets are files for their reader only",
      "a subPath",
      inContainer((c) => {
        c.volumeMounts[0].subPath = "tls.crt";
      }),
    ],
    [
      "what serves is probed",
      "no readiness probe",
      inContainer((c) => {
        c.readinessProbe = undefined;
      }),
    ],
    [
      "what serves is probed",
      "no liveness probe",
      inContainer((c) => {
        c.livenessProbe = undefined;
      }),
    ],
    [
      "what serves is probed",
      "liveness by dependencies",
      inContainer((c) => {
        c.livenessProbe = { grpc: { port: 50062 } };
      }),
    ],
    [
      "a port that is named is there",
      "in a probe",
      inContainer((c) => {
        c.livenessProbe.httpGet.port = "admin";
      }),
    ],
    [
      "a port that is named is there",
      "in a Service",
      (manifests) => {
        named(manifests, "Service", "token-service").spec.ports[0].targetPort = "http";
      },
    ],
    [
      "a port that is named is there",
      "in a policy",
      (manifests) => {
        named(manifests, "NetworkPolicy", "token-service").spec.ingress[0].ports[0].port = "http";
      },
    ],
    [
      "no token of the cluster is mounted",
      "a pod's token",
      inToken((pod) => {
        pod.automountServiceAccountToken = undefined;
      }),
    ],
    [
      "no token of the cluster is mounted",
      "an account's token",
      (manifests) => {
        named(manifests, "ServiceAccount", "gateway").automountServiceAccountToken = true;
      },
    ],
    [
      "no token of the cluster is mounted",
      "the default account",
      inToken((pod) => {
        pod.serviceAccountName = undefined;
      }),
    ],
    ["what is scaled survives a node's drain", "no budget", without("PodDisruptionBudget", "token-service")],
    [
      "what is scaled survives a node's drain",
      "no spread",
      inToken((pod) => {
        pod.topologySpreadConstraints.pop();
      }),
    ],
    [
      "what is scaled survives a node's drain",
      "nodes that take none count as empty",
      inToken((pod) => {
        pod.topologySpreadConstraints[0].nodeTaintsPolicy = undefined;
      }),
    ],
    [
      "what is scaled survives a node's drain",
      "fewer while rolling",
      (manifests) => {
        named(manifests, "Deployment", "token-service").spec.strategy.rollingUpdate.maxUnavailable = 1;
      },
    ],
    [
      "what is scaled survives a node's drain",
      "replicas by hand",
      (manifests) => {
        named(manifests, "Deployment", "token-service").spec.replicas = 2;
      },
    ],
    [
      "what scales something finds it",
      "another name",
      (manifests) => {
        named(manifests, "HorizontalPodAutoscaler", "gateway").spec.scaleTargetRef.kind = "Deployment";
      },
    ],
    ["what nobody has allowed is denied", "no deny-all", without("NetworkPolicy", "deny-all")],
    [
      "what nobody has allowed is denied",
      "deny-all for one way only",
      (manifests) => {
        named(manifests, "NetworkPolicy", "deny-all").spec.policyTypes = ["Ingress"];
      },
    ],
    [
      "what nobody has allowed is denied",
      "a pod without a policy",
      (manifests) => {
        named(manifests, "Deployment", "audit-service").spec.template.metadata.labels = { a: "b" };
      },
    ],
    [
      "no network policy allows everybody",
      "from anywhere",
      (manifests) => {
        named(manifests, "NetworkPolicy", "token-service").spec.ingress[0].from = [];
      },
    ],
    [
      "no network policy allows everybody",
      "from all pods",
      (manifests) => {
        named(manifests, "NetworkPolicy", "token-service").spec.ingress[0].from = [{ podSelector: {} }];
      },
    ],
    [
      "no network policy allows everybody",
      "to the world",
      (manifests) => {
        named(manifests, "NetworkPolicy", "gateway").spec.egress[0].to = [{ ipBlock: { cidr: "0.0.0.0/0" } }];
      },
    ],
    [
      "no network policy allows everybody",
      "any port",
      (manifests) => {
        named(manifests, "NetworkPolicy", "gateway").spec.egress[0].ports = undefined;
      },
    ],
    [
      "everything is in a namespace that is restricted",
      "the default namespace",
      (manifests) => {
        named(manifests, "Service", "gateway").metadata.namespace = "default";
      },
    ],
    [
      "everything is in a namespace that is restricted",
      "a namespace that allows more",
      (manifests) => {
        named(manifests, "Namespace", "gatehouse").metadata.labels = {};
      },
    ],
  ];

  test.each(BREAKS)("%s: found is %s", (name, _, change) => {
    const manifests = structuredClone(rendered.production ?? []) as Manifest[];
    change(manifests);
    expect(POLICIES[name](manifests)).not.toEqual([]);
  });

  test("every policy has something that breaks it", () => {
    const broken = new Set(BREAKS.map(([name]) => name));
    expect(policies.map(([name]) => name).filter((name) => !broken.has(name))).toEqual([]);
  });

  test("the four services scale, and each has an account of its own", () => {
    for (const overlay of OVERLAYS) {
      const manifests = rendered[overlay] ?? [];
      const scaled = ofKind(manifests, "HorizontalPodAutoscaler").map(({ spec }) => spec.scaleTargetRef.name);
      expect(scaled.sort()).toEqual(["audit-service", "gateway", "identity-service", "token-service"]);
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
