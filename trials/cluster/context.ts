import { join, resolve } from "node:path";
import { type Kubectl, run, settled, WORKLOADS } from "./kubectl.ts";

export class TrialRefused extends Error {
  override readonly name = "TrialRefused";
}

const MADE = "gatehouse-try";

/** @throws {TrialRefused} unless a context was named that kubectl knows: the current one may be of a cluster that is in use. */
export function chooseContext(known: readonly string[], named: string | undefined): string {
  if (named !== undefined && known.includes(named)) return named;
  const those = known.length === 0 ? "kubectl knows none" : `kubectl knows ${known.join(", ")}`;
  throw new TrialRefused(
    named === undefined
      ? "name the cluster to try on with --context, also if it is the current one, because everything in its namespace " +
          `gatehouse is restarted, killed and replaced (${those}); or make one with --make kind or --make k3d`
      : `there is no context ${named}: ${those}`,
  );
}

/** @throws {TrialRefused} if there is no kubectl. */
export async function contexts(): Promise<string[]> {
  const names = await run("kubectl", ["config", "get-contexts", "--output", "name"]).catch(
    (error: unknown) => {
      throw new TrialRefused(messageOf(error));
    },
  );
  return names.split("\n").filter(Boolean);
}

/** @throws {TrialRefused} if the cluster does not answer. */
export async function assertReachable(kubectl: Kubectl): Promise<void> {
  await kubectl(["get", "--raw", "/readyz", "--request-timeout=10s"]).catch((error: unknown) => {
    throw new TrialRefused(`the cluster does not answer: ${messageOf(error)}`);
  });
}

/**
 * @returns whether a trial is installed.
 * @throws {TrialRefused} if the namespace holds an installation that is not one of the development overlay.
 */
export async function isInstalled(kubectl: Kubectl): Promise<boolean> {
  const names = (await kubectl(["get", "deployments", "--output", "name"])).split("\n").filter(Boolean);
  if (names.length === 0) return false;
  if (names.includes("deployment.apps/mailbox")) return true;
  throw new TrialRefused(
    "the namespace gatehouse has an installation without the mailbox of the development overlay: it is not a trial",
  );
}

/** Makes a cluster with Docker, unless it is there. @returns its context. */
export async function makeCluster(tool: "kind" | "k3d"): Promise<string> {
  const context = `${tool}-${MADE}`;
  if ((await contexts()).includes(context)) return context;
  await run(
    tool,
    tool === "kind" ? ["create", "cluster", "--name", MADE] : ["cluster", "create", MADE],
  ).catch((error: unknown) => {
    throw new TrialRefused(
      `no cluster could be made: ${messageOf(error)}. It needs ${tool}, Docker and a network`,
    );
  });
  return context;
}

/** Brings an image of this machine's Docker into a cluster of kind, k3d or minikube; elsewhere it must be there already. */
export async function loadImage(context: string, image: string): Promise<void> {
  const [, kind, k3d] = /^(?:kind-(.+)|k3d-(.+))$/.exec(context) ?? [];
  if (kind !== undefined) await run("kind", ["load", "docker-image", image, "--name", kind]);
  else if (k3d !== undefined) await run("k3d", ["image", "import", image, "--cluster", k3d]);
  else if (context === "minikube") await run("minikube", ["image", "load", image]);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

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

/** Two replicas of everything, and the load's way to the gateway. @param way names the folder of the manifests. */
export async function applyTrial(kubectl: Kubectl, way: string): Promise<void> {
  await kubectl(["apply", "--kustomize", join(import.meta.dirname, way)]);
  for (const workload of WORKLOADS) await settled(kubectl, workload);
}
