import {
  type Container,
  containersOf,
  environmentOf,
  ofKind,
  selects,
  type Workload,
  workloadsOf,
} from "#deploy/k8s/manifests.ts";
import type { Manifest } from "#deploy/k8s/render.ts";

/** Says what is wrong with the manifests of an overlay; nothing if all is well. */
export type Policy = (manifests: readonly Manifest[]) => string[];

const CLUSTER_KINDS = ["Namespace"];
const SCALED_KINDS = ["Deployment", "StatefulSet"];

/** Rules for every overlay. */
export const POLICIES = {
  "nothing runs as root": eachContainer(({ pod }, container) => {
    const context = { ...pod.securityContext, ...container.securityContext };
    return context.runAsNonRoot === true && context.runAsUser > 0 && context.runAsGroup > 0;
  }),
  "nothing has rights of the host": eachContainer(({ pod }, { securityContext = {}, ports = [] }) => {
    const { privileged, allowPrivilegeEscalation, capabilities = {} } = securityContext;
    return (
      privileged !== true &&
      allowPrivilegeEscalation === false &&
      capabilities.drop?.includes("ALL") &&
      capabilities.add === undefined &&
      pod.securityContext?.seccompProfile?.type === "RuntimeDefault" &&
      !(pod.hostNetwork || pod.hostPID || pod.hostIPC) &&
      ports.every((port: object) => !("hostPort" in port))
    );
  }),
  "the root file system is read-only": eachContainer(
    (_, { securityContext }) => securityContext?.readOnlyRootFilesystem === true,
  ),
  "an image has a version": eachContainer((_, { image }) => {
    const [, tag, digest] = /^[^@]*?(?::([\w.-]+))?(?:@(sha256:[0-9a-f]{64}))?$/.exec(image) ?? [];
    return digest !== undefined || (tag !== undefined && tag !== "latest");
  }),
  "resources are asked for and limited": eachContainer((_, { resources = {} }) => {
    const { requests = {}, limits = {} } = resources;
    return requests.cpu && requests.memory && limits.memory && limits["ephemeral-storage"];
  }),
  "no secret is in an environment": (manifests) =>
    workloadsOf(manifests).flatMap((workload) =>
      containersOf(workload).flatMap((container) => secretsInEnvironment(manifests, workload, container)),
    ),
  "people see one operator": (manifests) => {
    const containers = workloadsOf(manifests).flatMap(containersOf);
    const given = containers.map((container) => environmentOf(manifests, container));
    const valuesOf = (name: string) => new Set(given.flatMap((variables) => variables[name] ?? []));
    return ["BRAND_NAME", "BRAND_COLOR", "SUPPORT_URL"].filter((name) => valuesOf(name).size > 1);
  },
  "no secret is in a manifest": (manifests) => ofKind(manifests, "Secret").map(titleOf),
  // Without these defaults `kubectl apply` reports "configured" each time: it compares the whole list with the stored one.
  "claim templates say what the server would add": (manifests) =>
    ofKind(manifests, "StatefulSet").flatMap(({ metadata, spec }) =>
      (spec.volumeClaimTemplates ?? [])
        .filter(
          (claim: Manifest) =>
            claim.apiVersion !== "v1" ||
            claim.kind !== "PersistentVolumeClaim" ||
            claim.spec.volumeMode === undefined ||
            claim.status?.phase !== "Pending",
        )
        .map((claim: Manifest) => `${metadata.name}: ${claim.metadata.name}`),
    ),
  "volumes are of the cluster, not of the host": (manifests) =>
    eachWorkload(({ pod }) =>
      (pod.volumes ?? []).every(
        ({ name: _, ...source }: Record<string, unknown>) =>
          ["secret", "configMap", "projected"].some((kind) => kind in source) ||
          (source.emptyDir as { sizeLimit?: string } | undefined)?.sizeLimit !== undefined ||
          isSharedClaim(manifests, source.persistentVolumeClaim as { claimName: string } | undefined),
      ),
    )(manifests),
  "secrets are files for their reader only": eachWorkload(
    (workload) =>
      secretVolumes(workload).every(({ mode }) => mode === 0o400) &&
      containersOf(workload).every(({ volumeMounts = [] }) =>
        volumeMounts
          .filter(({ name }) => secretVolumes(workload).some((volume) => volume.name === name))
          // A subPath is never renewed: a certificate would run out.
          .every(({ readOnly, subPath }) => readOnly === true && subPath === undefined),
      ),
  ),
  "what serves is probed": eachWorkload(
    ({ kind, pod }) =>
      kind === "Job" ||
      pod.containers.every(
        (container: Container) =>
          container.startupProbe &&
          container.readinessProbe &&
          container.livenessProbe?.grpc === undefined &&
          container.livenessProbe,
      ),
  ),
  "a port that is named is there": unknownPorts,
  "no token of the cluster is mounted": (manifests) => [
    ...eachWorkload(
      ({ pod }) =>
        pod.automountServiceAccountToken === false &&
        pod.enableServiceLinks === false &&
        ofKind(manifests, "ServiceAccount").some(({ metadata }) => metadata.name === pod.serviceAccountName),
    )(manifests),
    ...ofKind(manifests, "ServiceAccount")
      .filter((account) => account.automountServiceAccountToken !== false)
      .map(titleOf),
  ],
  "what is scaled survives a node's drain": (manifests) =>
    workloadsOf(manifests)
      .filter((workload) => isScaled(manifests, workload) && !survivesDrain(manifests, workload))
      .map(({ manifest }) => titleOf(manifest)),
  "what scales something finds it": (manifests) =>
    ofKind(manifests, "HorizontalPodAutoscaler")
      .filter(
        ({ spec }) => !workloadsOf(manifests).some((workload) => isTarget(spec.scaleTargetRef, workload)),
      )
      .map(titleOf),
  "what nobody has allowed is denied": undenied,
  "no network policy allows everybody": (manifests) =>
    ofKind(manifests, "NetworkPolicy").filter(allowsEverybody).map(titleOf),
  "everything is in a namespace that is restricted": (manifests) => {
    const restricted = ofKind(manifests, "Namespace")
      .filter(({ metadata }) => metadata.labels?.["pod-security.kubernetes.io/enforce"] === "restricted")
      .map(({ metadata }) => metadata.name);
    return manifests
      .filter(
        ({ kind, metadata }) =>
          !CLUSTER_KINDS.includes(kind) && !restricted.includes(metadata.namespace ?? ""),
      )
      .map(titleOf);
  },
} satisfies Record<string, Policy>;

function titleOf({ kind, metadata }: Manifest): string {
  return `${kind} ${metadata.name}`;
}

function eachWorkload(isWell: (workload: Workload) => unknown): Policy {
  return (manifests) =>
    workloadsOf(manifests)
      .filter((workload) => !isWell(workload))
      .map(({ manifest }) => titleOf(manifest));
}

function eachContainer(isWell: (workload: Workload, container: Container) => unknown): Policy {
  return (manifests) =>
    workloadsOf(manifests).flatMap((workload) =>
      containersOf(workload)
        .filter((container) => !isWell(workload, container))
        .map(({ name }) => `${titleOf(workload.manifest)}, container ${name}`),
    );
}

const SECRET_NAME = /PASSWORD|SECRET|CREDENTIAL|PEPPER|(^|_)KEY(_|$)/;

function secretsInEnvironment(
  manifests: readonly Manifest[],
  workload: Workload,
  container: Container,
): string[] {
  const title = `${titleOf(workload.manifest)}, container ${container.name}`;
  const sources = [...(container.envFrom ?? []), ...(container.env ?? [])];
  const isReference = (source: { secretRef?: object; valueFrom?: { secretKeyRef?: object } }) =>
    source.secretRef !== undefined || source.valueFrom?.secretKeyRef !== undefined;
  if (sources.some(isReference)) return [`${title}: a Secret`];
  return Object.entries(environmentOf(manifests, container))
    .filter(([name, value]) => {
      const isNamedSo = SECRET_NAME.test(name) && !/_(FILE|LENGTH|MAX_AGE_S)$/.test(name);
      return (
        isNamedSo || (URL.canParse(value) && new URL(value).password !== "") || value.includes("PRIVATE KEY")
      );
    })
    .map(([name]) => `${title}: ${name}`);
}

/** A claim that is made here and that replicas on several nodes can have at once. */
function isSharedClaim(manifests: readonly Manifest[], source: { claimName: string } | undefined): boolean {
  return ofKind(manifests, "PersistentVolumeClaim").some(
    ({ metadata, spec }) =>
      metadata.name === source?.claimName && spec.accessModes.join() === "ReadWriteMany",
  );
}

function secretVolumes({ pod }: Workload): { name: string; mode: number | undefined }[] {
  // biome-ignore lint/suspicious/noExplicitAny: Kubernetes' shape
  return (pod.volumes ?? []).flatMap(({ name, secret, projected }: any) =>
    secret || projected ? [{ name, mode: (secret ?? projected).defaultMode }] : [],
  );
}

function unknownPorts(manifests: readonly Manifest[]): string[] {
  const workloads = workloadsOf(manifests);
  const portNames = (candidates: Workload[]) =>
    candidates.flatMap((workload) =>
      containersOf(workload).flatMap(({ ports = [] }) => ports.map(({ name }) => name)),
    );
  const probes = workloads.flatMap((workload) =>
    containersOf(workload).flatMap((container) =>
      [container.startupProbe, container.readinessProbe, container.livenessProbe]
        .map((probe) => probe?.httpGet?.port ?? probe?.tcpSocket?.port)
        .filter((port) => typeof port === "string" && !container.ports?.some(({ name }) => name === port))
        .map((port) => `${titleOf(workload.manifest)}, probe: ${port}`),
    ),
  );
  const services = ofKind(manifests, "Service").flatMap((service) => {
    const behind = portNames(
      workloads.filter(({ labels }) => selects({ matchLabels: service.spec.selector }, labels)),
    );
    return service.spec.ports
      .map(({ targetPort }: { targetPort: string }) => targetPort)
      .filter((port: string) => !behind.includes(port))
      .map((port: string) => `${titleOf(service)}: ${port}`);
  });
  // Of an ingress rule a name means a port of the pods that are protected.
  const policies = ofKind(manifests, "NetworkPolicy").flatMap((policy) => {
    const behind = portNames(workloads.filter(({ labels }) => selects(policy.spec.podSelector, labels)));
    return (policy.spec.ingress ?? [])
      .flatMap(({ ports }: { ports: { port: string | number }[] }) => ports.map(({ port }) => port))
      .filter((port: string | number) => typeof port === "string" && !behind.includes(port))
      .map((port: string) => `${titleOf(policy)}: ${port}`);
  });
  return [...probes, ...services, ...policies];
}

function isTarget(reference: { kind: string; name: string }, { kind, name }: Workload): boolean {
  return reference.kind === kind && reference.name === name;
}

function isScaled(manifests: readonly Manifest[], workload: Workload): boolean {
  return ofKind(manifests, "HorizontalPodAutoscaler").some(({ spec }) =>
    isTarget(spec.scaleTargetRef, workload),
  );
}

function survivesDrain(manifests: readonly Manifest[], { kind, labels, pod, manifest }: Workload): boolean {
  const budgets = ofKind(manifests, "PodDisruptionBudget").filter(({ spec }) =>
    selects(spec.selector, labels),
  );
  const strategy = manifest.spec.strategy?.rollingUpdate;
  return (
    SCALED_KINDS.includes(kind) &&
    budgets.length === 1 &&
    budgets[0]?.spec.maxUnavailable === 1 &&
    manifest.spec.replicas === undefined && // else every apply would undo the scaling
    (kind === "StatefulSet" || (strategy?.maxUnavailable === 0 && strategy?.maxSurge === 1)) &&
    isSpread(pod, labels, { topologyKey: "kubernetes.io/hostname", nodeTaintsPolicy: "Honor" }) &&
    isSpread(pod, labels, { topologyKey: "topology.kubernetes.io/zone" })
  );
}

function isSpread(pod: Workload["pod"], labels: Workload["labels"], wanted: Record<string, string>): boolean {
  return (pod.topologySpreadConstraints ?? []).some(
    (constraint: Record<string, unknown> & { labelSelector: Parameters<typeof selects>[0] }) =>
      Object.entries(wanted).every(([key, value]) => constraint[key] === value) &&
      selects(constraint.labelSelector, labels),
  );
}

function undenied(manifests: readonly Manifest[]): string[] {
  const policies = ofKind(manifests, "NetworkPolicy");
  const isDenyAll = ({ spec }: Manifest) =>
    Object.keys(spec.podSelector).length === 0 &&
    ["Ingress", "Egress"].every((type) => spec.policyTypes.includes(type)) &&
    spec.ingress === undefined &&
    spec.egress === undefined;
  const missing = policies.some(isDenyAll) ? [] : ["no policy denies all"];
  const own = policies.filter(({ spec }) => Object.keys(spec.podSelector).length > 0);
  return [
    ...missing,
    ...workloadsOf(manifests)
      .filter(({ labels }) => !own.some(({ spec }) => selects(spec.podSelector, labels)))
      .map(({ manifest }) => `${titleOf(manifest)} has no policy`),
  ];
}

/** Networks that are not the internet: the cluster's own, its neighbours, and the metadata of a cloud's machines. */
const INNER = [
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.168.0.0/16",
];

interface IpBlock {
  cidr: string;
  except?: string[];
}

function allowsEverybody({ spec }: Manifest): boolean {
  const rules = [...(spec.ingress ?? []), ...(spec.egress ?? [])];
  return rules.some((rule) => {
    const peers: { podSelector?: object; namespaceSelector?: object; ipBlock?: IpBlock }[] =
      rule.from ?? rule.to ?? [];
    const isInternet = ({ cidr, except = [] }: IpBlock) =>
      rule.to !== undefined && cidr === "0.0.0.0/0" && INNER.every((network) => except.includes(network));
    const isOpen = peers.some(
      ({ podSelector, namespaceSelector, ipBlock }) =>
        (ipBlock?.cidr.endsWith("/0") && !isInternet(ipBlock)) ||
        [podSelector, namespaceSelector].some((selector) => selector && Object.keys(selector).length === 0),
    );
    return peers.length === 0 || isOpen || (rule.ports ?? []).length === 0;
  });
}
