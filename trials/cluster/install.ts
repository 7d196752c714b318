import { join, resolve } from "node:path";
import { type Kubectl, run } from "./kubectl.ts";
import { settled, WORKLOADS } from "./workloads.ts";

const K8S = resolve(import.meta.dirname, "..", "..", "deploy", "k8s");

/** Step by step what deploy/k8s/README.md says under "Try it". @param say gets each step when it is done. */
export async function install(kubectl: Kubectl, say: (step: string) => void): Promise<void> {
  const began = performance.now();
  const done = (step: string) => say(`${((performance.now() - began) / 1_000).toFixed(1)} s  ${step}`);
  await kubectl(["apply", "--filename", join(K8S, "base", "namespace.yaml")]);
  const names = await kubectl(["get", "secrets", "--output", "name"]);
  if (!names.includes("secret/gateway-tls\n")) {
    const secrets = await run(process.execPath, [join(K8S, "print-trial-secrets.ts")]);
    await kubectl(["create", "--filename", "-"], secrets);
  }
  done("secrets");
  const overlay = join(K8S, "overlays", "development");
  await kubectl(["apply", "--kustomize", overlay]);
  done("applied");
  await kubectl(["wait", "--for=condition=complete", "job", "--all", "--timeout=5m"]);
  done("migrated");
  await kubectl(["rollout", "status", "statefulset/gateway", "--timeout=5m"]);
  done("the gateway is ready");
  const changed = changedBy(await kubectl(["apply", "--kustomize", overlay]));
  if (changed.length > 0) throw new Error(`a second apply changes what it need not: ${changed.join(", ")}`);
  done("a second apply changes nothing");
}

/** Lines of `kubectl apply` that are not "unchanged". kubectl always sends the selector of a PodDisruptionBudget again. */
export function changedBy(output: string): string[] {
  return output
    .split("\n")
    .filter(
      (line) =>
        line !== "" && !line.endsWith(" unchanged") && !line.startsWith("poddisruptionbudget.policy/"),
    );
}

/** Two replicas of everything, and the load's way to the gateway. */
export async function applyTrial(kubectl: Kubectl): Promise<void> {
  await kubectl(["apply", "--kustomize", import.meta.dirname]);
  for (const workload of WORKLOADS) await settled(kubectl, workload);
}
