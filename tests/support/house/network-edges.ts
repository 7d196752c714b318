import { containersOf, ofKind, selects, type Workload, workloadsOf } from "#deploy/k8s/manifests.ts";
import type { Manifest } from "#deploy/k8s/render.ts";

interface Peer {
  podSelector?: Parameters<typeof selects>[0];
  namespaceSelector?: { matchLabels: Record<string, string> };
  ipBlock?: { cidr: string };
}

interface Rule {
  from?: Peer[];
  to?: Peer[];
  ports: { port: string | number; protocol: string }[];
}

const NAME = "app.kubernetes.io/name";
const NAMESPACE = "kubernetes.io/metadata.name";

/** `caller -> callee:port` of every call that the network policies let through on both sides, sorted. */
export function openEdges(manifests: readonly Manifest[]): string[] {
  const workloads = workloadsOf(manifests);
  const edges = workloads.flatMap((caller) =>
    workloads.flatMap((callee) => {
      const out = rules(manifests, caller, "Egress").filter(({ to = [] }) => leadsTo(to, callee));
      const into = rules(manifests, callee, "Ingress").filter(({ from = [] }) => leadsTo(from, caller));
      const allowed = into.flatMap((rule) => portsOf(rule, callee));
      return out
        .flatMap((rule) => portsOf(rule, callee))
        .filter((port) => allowed.includes(port))
        .map((port) => `${caller.labels[NAME]} -> ${callee.labels[NAME]}:${port}`);
    }),
  );
  return [...new Set(edges)].sort();
}

/** Edges that one side allows and the other does not: a half-open door, sorted. */
export function halfOpenEdges(manifests: readonly Manifest[]): string[] {
  const workloads = workloadsOf(manifests);
  const open = openEdges(manifests);
  const halves = workloads.flatMap((own) =>
    workloads.flatMap((other) => [
      ...rules(manifests, own, "Egress")
        .filter(({ to = [] }) => leadsTo(to, other))
        .flatMap((rule) => portsOf(rule, other))
        .map((port) => `${own.labels[NAME]} -> ${other.labels[NAME]}:${port}`),
      ...rules(manifests, own, "Ingress")
        .filter(({ from = [] }) => leadsTo(from, other))
        .flatMap((rule) => portsOf(rule, own))
        .map((port) => `${other.labels[NAME]} -> ${own.labels[NAME]}:${port}`),
    ]),
  );
  return [...new Set(halves)].filter((edge) => !open.includes(edge)).sort();
}

/** What crosses the namespace's border: `namespace/pod -> workload:port`, `workload -> CIDR:port`, sorted. */
export function borderEdges(manifests: readonly Manifest[]): string[] {
  const edges = workloadsOf(manifests).flatMap((workload) => {
    const name = workload.labels[NAME];
    const into = rules(manifests, workload, "Ingress").flatMap((rule) =>
      (rule.from ?? []).filter(isOutside).flatMap((peer) => {
        return portsOf(rule, workload).map((port) => `${peerName(peer)} -> ${name}:${port}`);
      }),
    );
    const out = rules(manifests, workload, "Egress").flatMap((rule) =>
      (rule.to ?? []).filter(isOutside).flatMap((peer) => {
        return rule.ports.map(({ port, protocol }) => `${name} -> ${peerName(peer)}:${port}/${protocol}`);
      }),
    );
    return [...into, ...out];
  });
  return [...new Set(edges)].sort();
}

function rules(manifests: readonly Manifest[], { labels }: Workload, type: "Ingress" | "Egress"): Rule[] {
  return ofKind(manifests, "NetworkPolicy")
    .filter(({ spec }) => spec.policyTypes.includes(type) && selects(spec.podSelector, labels))
    .flatMap(({ spec }) => spec[type.toLowerCase()] ?? []);
}

const isOutside = ({ namespaceSelector, ipBlock }: Peer) =>
  namespaceSelector !== undefined || ipBlock !== undefined;

function leadsTo(peers: Peer[], { labels }: Workload): boolean {
  return peers.some(
    (peer) => !isOutside(peer) && peer.podSelector !== undefined && selects(peer.podSelector, labels),
  );
}

function peerName({ podSelector, namespaceSelector, ipBlock }: Peer): string {
  if (ipBlock !== undefined) return ipBlock.cidr;
  const pod = podSelector?.matchLabels && Object.values(podSelector.matchLabels).join();
  return `${namespaceSelector?.matchLabels[NAMESPACE]}/${pod ?? "*"}`;
}

/** As numbers: a name means a port of the pods that are protected. */
function portsOf({ ports }: Rule, callee: Workload): number[] {
  const known = containersOf(callee).flatMap((container) => container.ports ?? []);
  return ports.flatMap(({ port }) =>
    typeof port === "number" ? [port] : known.filter(({ name }) => name === port).map((p) => p.containerPort),
  );
}
