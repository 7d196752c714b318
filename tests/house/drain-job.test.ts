import { execFileSync, spawnSync } from "node:child_process";
import { dirname, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { AUDIT_CALLERS } from "#audit-service/intake/audit-rpc.ts";
import { drainConfigSchema } from "#deploy/image/drain-config.ts";
import { drainJob } from "#deploy/k8s/drain-job.ts";
import {
  environmentOf,
  mountedFiles,
  named,
  ofKind,
  selects,
  type Workload,
  workloadsOf,
} from "#deploy/k8s/manifests.ts";
import { hasKubectl, type Manifest, OVERLAYS, renderOverlay } from "#deploy/k8s/render.ts";
import { POLICIES } from "../support/house/manifest-policies.ts";
import { openEdges } from "../support/house/network-edges.ts";
import { hasTools } from "../support/house/tools.ts";

const SCRIPT = resolve(import.meta.dirname, "..", "..", "deploy", "k8s", "print-drain-job.ts");

/** The StatefulSet as in the cluster, where the autoscaler sets the number of replicas. */
function scaled(manifests: readonly Manifest[], replicas: number): Manifest {
  const set = structuredClone(named(manifests, "StatefulSet", "gateway"));
  set.spec.replicas = replicas;
  return set;
}

describe.skipIf(!hasKubectl()).each(OVERLAYS)("%s (skipped where there is no kubectl)", (overlay) => {
  const base = hasKubectl() ? renderOverlay(overlay) : [];
  const job = () => drainJob(scaled(base, 3), "gateway-3");
  const workload = (manifests: Manifest[]) => workloadsOf(manifests)[0] as Workload;

  test.skipIf(!hasTools)("the Job that drains a claim is what Kubernetes allows", async () => {
    const { schemaProblems, unknownMembers } = await import("#tools/manifest-schemas.ts");
    expect(schemaProblems(job())).toEqual([]);
    expect(unknownMembers([job()])).toEqual([]);
  });

  test("the Job that drains a claim keeps what all others keep", () => {
    // The volume claim is from the StatefulSet and not mounted elsewhere at this time.
    const { "volumes are of the cluster, not of the host": _, ...policies } = POLICIES;
    for (const [name, policy] of Object.entries(policies)) expect(policy([...base, job()]), name).toEqual([]);
  });

  test("it mounts the claim of the replica where the replica had its spool, and knows all that the program reads", () => {
    const { pod } = workload([job()]);
    const [container] = pod.containers;
    expect(container.args).toEqual(["drain-spool"]);
    expect(container.image).toBe(
      named(base, "StatefulSet", "gateway").spec.template.spec.containers[0].image,
    );
    const environment = environmentOf(base, container);
    const missing = Object.keys(drainConfigSchema.shape).filter((name) => environment[name] === undefined);
    expect(missing).toEqual(["DRAIN_TIMEOUT_S"]);
    const claim = pod.volumes.find(
      (volume: { persistentVolumeClaim?: object }) => volume.persistentVolumeClaim,
    );
    expect(claim.persistentVolumeClaim.claimName).toBe("audit-spool-gateway-3");
    const mount = container.volumeMounts.find(({ name }: { name: string }) => name === claim.name);
    expect(mount.mountPath).toBe(dirname(environment.AUDIT_SPOOL_DIRECTORY ?? ""));
    const files = mountedFiles({ pod }, container);
    expect(files.map(({ path }) => path).sort()).toEqual(
      ["TLS_CERT_FILE", "TLS_KEY_FILE", "TLS_CA_FILE"].map((name) => environment[name]).sort(),
    );
    // Entries are deduplicated by producer name, so the Job needs the gateway's certificate.
    expect(new Set(files.map(({ from }) => from.name))).toEqual(new Set(["gateway-tls"]));
    expect(AUDIT_CALLERS.record).toContain("gateway");
  });

  test("it reaches audit-service and nothing else, and no Service sends clients to it", () => {
    const edges = openEdges([...base, job()]).filter((edge) => edge.includes("drain-spool"));
    expect(edges).toEqual(["drain-spool -> audit-service:50053"]);
    const { labels } = workload([job()]);
    const leading = ofKind(base, "Service").filter(({ spec }) =>
      selects({ matchLabels: spec.selector }, labels),
    );
    expect(leading).toEqual([]);
  });

  test("a desired replica is refused, and so is a StatefulSet that is not from the cluster", () => {
    expect(() => drainJob(scaled(base, 4), "gateway-3")).toThrow(
      /gateway-3 is one of the 4 desired replicas/,
    );
    expect(() => drainJob(named(base, "StatefulSet", "gateway"), "gateway-3")).toThrow(
      /spec.replicas is missing/,
    );
    for (const name of ["gateway", "gateway-", "gateway--1", "identity-service-3", "gateway-3x"]) {
      expect(() => drainJob(scaled(base, 3), name), name).toThrow(/is not a replica of gateway/);
    }
  });
});

test.skipIf(!hasKubectl())("the script turns the cluster's StatefulSet into the Job, or says why not", () => {
  const set = scaled(renderOverlay("production"), 3);
  const input = JSON.stringify(set);
  const printed = execFileSync(process.execPath, [SCRIPT, "gateway-3"], { input, encoding: "utf8" });
  expect(JSON.parse(printed)).toEqual(drainJob(set, "gateway-3"));
  const fails = (replica: string, given: string) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [SCRIPT, replica], {
      input: given,
      encoding: "utf8",
    });
    expect([status, stdout]).toEqual([1, ""]);
    return stderr;
  };
  expect(fails("gateway-0", input)).toMatch(/sends its entries itself/);
  expect(fails("gateway-3", "")).toMatch(/not a StatefulSet in JSON/);
  expect(spawnSync(process.execPath, [SCRIPT], { input }).status).toBe(64);
});
