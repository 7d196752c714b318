import { type Kubectl, KubectlFailed, run } from "./kubectl.ts";

export class TrialRefused extends Error {
  override readonly name = "TrialRefused";
}

/** Names that tools for clusters on one's own machine give. */
const LOOKS_LIKE_A_TRIAL =
  /^(?:kind|k3d)-|^(?:minikube|docker-desktop|rancher-desktop|orbstack|colima|microk8s)$/;
const MADE = "gatehouse-try";

/** @throws {TrialRefused} unless the context was named, or its name is that of a cluster on one's own machine. */
export function chooseContext(current: string | undefined, named: string | undefined): string {
  if (named !== undefined) return named;
  if (current === undefined) {
    throw new TrialRefused(
      "kubectl has no context: name one with --context, or make a cluster with --make kind",
    );
  }
  if (LOOKS_LIKE_A_TRIAL.test(current)) return current;
  throw new TrialRefused(
    `the context ${current} does not look like a cluster to try on: everything in its namespace gatehouse would be ` +
      `restarted, killed and replaced. If that is what you want, add --context ${current}`,
  );
}

export async function currentContext(): Promise<string | undefined> {
  return run("kubectl", ["config", "current-context"]).then(
    (name) => name.trim(),
    () => undefined,
  );
}

/** @throws {TrialRefused} if the namespace holds an installation that is not one of the development overlay. */
export async function assertNoOtherInstallation(kubectl: Kubectl): Promise<void> {
  const names = (await kubectl(["get", "deployments", "--output", "name"])).split("\n").filter(Boolean);
  if (names.length === 0 || names.includes("deployment.apps/mailbox")) return;
  throw new TrialRefused(
    "the namespace gatehouse has an installation without the mailbox of the development overlay: it is not a trial",
  );
}

/** Makes a cluster with Docker. @returns its context. */
export async function makeCluster(tool: "kind" | "k3d"): Promise<string> {
  const context = `${tool}-${MADE}`;
  const contexts = (await run("kubectl", ["config", "get-contexts", "--output", "name"])).split("\n");
  if (contexts.includes(context)) return context;
  await run(
    tool,
    tool === "kind" ? ["create", "cluster", "--name", MADE] : ["cluster", "create", MADE],
  ).catch((error: unknown) => {
    const why = error instanceof KubectlFailed ? error.message : String(error);
    throw new TrialRefused(`no cluster could be made: ${why}. It needs ${tool}, Docker and a network`);
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
