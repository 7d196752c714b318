import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { environmentOf, named, ofKind, workloadsOf } from "#deploy/k8s/manifests.ts";
import { hasKubectl, type Manifest, renderFolder } from "#deploy/k8s/render.ts";
import { WORKLOADS } from "#trials/cluster/kubectl.ts";
import { loadPod } from "#trials/cluster/load-pod.ts";
import { POLICIES, type Policy } from "../support/house/manifest-policies.ts";
import { hasTools } from "../support/house/tools.ts";

const FOLDER = resolve(import.meta.dirname, "..", "..", "trials", "cluster");
const isHere = hasKubectl();
const LOAD = { rate: 500, logins: 0.05, url: "http://gateway", host: "localhost:8080", run: "1" };
// The load serves nothing, so nothing probes it.
const { "what serves is probed": _, ...rules } = POLICIES;

describe.skipIf(!isHere).each(["direct", "contour"])(
  "the trial on a cluster, %s (skipped where there is no kubectl)",
  (way) => {
    /** As they are in the cluster while the load runs. */
    const manifests: readonly Manifest[] = isHere
      ? [...renderFolder(join(FOLDER, way)), ...loadPod("gatehouse:0.1.0", LOAD)]
      : [];

    test.skipIf(!hasTools)("its manifests are what Kubernetes' schemas allow", async () => {
      const { schemaProblems, unknownMembers } = await import("#tools/manifest-schemas.ts");
      expect(manifests.flatMap(schemaProblems)).toEqual([]);
      expect(unknownMembers([...manifests])).toEqual([]);
    });

    test.each(Object.entries(rules) as [string, Policy][])("%s", (_name, policy) => {
      expect(policy(manifests)).toEqual([]);
    });

    test("every workload of Gatehouse is disturbed, and has a second replica meanwhile", () => {
      const image = "gatehouse:0.1.0";
      const ours = workloadsOf(manifests).filter(
        ({ kind, pod }) => ["Deployment", "StatefulSet"].includes(kind) && pod.containers[0].image === image,
      );
      expect(ours.map(({ name }) => name).sort()).toEqual(WORKLOADS.map(({ name }) => name).sort());
      for (const { name, manifest } of ours) {
        const scaler = ofKind(manifests, "HorizontalPodAutoscaler").find(
          ({ metadata }) => metadata.name === name,
        );
        expect(scaler?.spec.minReplicas ?? manifest.spec.replicas, name).toBe(2);
      }
    });

    test("each replica counts with its share of as many as there may be", () => {
      const most = named(manifests, "HorizontalPodAutoscaler", "gateway").spec.maxReplicas;
      const variables = (name: string) => {
        const workload = workloadsOf(manifests).find((each) => each.name === name);
        return environmentOf(manifests, workload?.pod.containers[0]);
      };
      expect(variables("gateway").RATE_LIMIT_REPLICAS).toBe(String(most));
      expect(variables("identity-service").THROTTLE_REPLICAS).toBe(String(most));
    });
  },
);
