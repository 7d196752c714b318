import { execFile } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";

export class KubectlFailed extends Error {
  override readonly name = "KubectlFailed";
}

const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;
export const NAMESPACE = "gatehouse";

/** Runs kubectl in the trial's context and namespace, and gives what it printed. @throws {KubectlFailed} */
export type Kubectl = (args: readonly string[], input?: string) => Promise<string>;

export function createKubectl(context: string, namespace = NAMESPACE): Kubectl {
  return (args, input) => run("kubectl", ["--context", context, "--namespace", namespace, ...args], input);
}

export function run(program: string, args: readonly string[], input?: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { maxBuffer: MAX_OUTPUT_BYTES };
    const child = execFile(program, args, options, (error, stdout, stderr) => {
      if (error === null) return resolve(stdout);
      if (error.code === "ENOENT") return reject(new KubectlFailed(`${program} was not found: install it`));
      const said = stderr.trim() || error.message;
      reject(new KubectlFailed(`${program} ${args.join(" ")}: ${said}`, { cause: error }));
    });
    // A program that ends without reading its input says why itself.
    child.stdin?.on("error", () => {});
    child.stdin?.end(input ?? "");
  });
}

export interface Workload {
  kind: "deployment" | "statefulset";
  name: string;
}

/** A service before its callers. */
export const WORKLOADS: readonly Workload[] = [
  { kind: "deployment", name: "audit-service" },
  { kind: "deployment", name: "event-service" },
  { kind: "deployment", name: "token-service" },
  { kind: "deployment", name: "identity-service" },
  { kind: "statefulset", name: "gateway" },
  { kind: "deployment", name: "payments-service" },
];

/** As kubectl takes it. */
export const refOf = ({ kind, name }: Workload) => `${kind}/${name}`;

export interface Pod {
  name: string;
  isReady: boolean;
  isLeaving: boolean;
  /** Of its main container: the exit code of the last run, if it has ended. */
  exitCode?: number;
  /** `containerd://…` of its main container. */
  containerId: string;
}

const POLL_MS = 1_000;
const PATIENCE_MS = 10 * 60_000;

export async function podsOf(kubectl: Kubectl, { name }: Pick<Workload, "name">): Promise<Pod[]> {
  const selector = `app.kubernetes.io/name=${name}`;
  const { items } = JSON.parse(await kubectl(["get", "pods", "--selector", selector, "--output", "json"]));
  // biome-ignore lint/suspicious/noExplicitAny: Kubernetes' shape
  return items.map(({ metadata, status }: any): Pod => {
    // biome-ignore lint/suspicious/noExplicitAny: Kubernetes' shape
    const main = status.containerStatuses?.find((container: any) => container.name === name);
    const ended = main?.state?.terminated ?? main?.lastState?.terminated;
    return {
      name: metadata.name,
      isReady: main?.ready === true,
      isLeaving: metadata.deletionTimestamp !== undefined,
      containerId: main?.containerID ?? "",
      ...(ended !== undefined && { exitCode: ended.exitCode }),
    };
  });
}

/** Waits until `look` gives something. @throws with `what`, and what was seen last, after ten minutes. */
export async function eventually<T>(
  what: string,
  look: () => Promise<T | undefined>,
  seen: () => Promise<string> = async () => "",
): Promise<T> {
  const end = performance.now() + PATIENCE_MS;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    if (performance.now() > end) throw new Error(`not within ten minutes: ${what} ${await seen()}`);
    await sleep(POLL_MS);
  }
}

/** Waits until the rollout is complete, every replica is ready, and no other pod is there any more. */
export async function settled(kubectl: Kubectl, workload: Workload): Promise<void> {
  await kubectl(["rollout", "status", refOf(workload), "--timeout=10m"]);
  await eventually(
    `${refOf(workload)} has settled`,
    async () => {
      const wanted = Number(await kubectl(["get", refOf(workload), "--output", "jsonpath={.spec.replicas}"]));
      const pods = await podsOf(kubectl, workload);
      const isSettled =
        pods.length === wanted && pods.every(({ isReady, isLeaving }) => isReady && !isLeaving);
      return isSettled || undefined;
    },
    async () => JSON.stringify(await podsOf(kubectl, workload)),
  );
}
