import type { Kubectl } from "./kubectl.ts";
import { type LoadLine, parseLoadLines } from "./load-lines.ts";
import { LOAD, type LoadSettings, loadPod } from "./load-pod.ts";
import { eventually } from "./workloads.ts";

export interface RunningLoad {
  /** What it has said since the last time. */
  linesSince(): Promise<LoadLine[]>;
  stop(): Promise<void>;
}

const REMOVE = ["delete", "pod,configmap", LOAD, "--ignore-not-found", "--wait"];

/** Starts the load's pod and waits until it calls. @throws with what it said, if it ends. */
export async function startLoad(
  kubectl: Kubectl,
  image: string,
  settings: LoadSettings,
): Promise<RunningLoad> {
  await kubectl(REMOVE);
  const manifests = loadPod(image, settings);
  const list = { apiVersion: "v1", kind: "List", items: manifests };
  await kubectl(["create", "--filename", "-"], JSON.stringify(list));
  const logs = () => kubectl(["logs", LOAD]).catch(() => "");
  await eventually(
    "the load is on",
    async () => {
      const phase = await kubectl(["get", "pod", LOAD, "--output", "jsonpath={.status.phase}"]);
      if (phase === "Failed") throw new Error(`the load has ended: ${await logs()}`);
      return parseLoadLines(await logs()).some((line) => "ready" in line) || undefined;
    },
    logs,
  );
  let seen = 0;
  return {
    async linesSince() {
      const lines = parseLoadLines(await kubectl(["logs", LOAD]));
      const fresh = lines.slice(seen);
      seen = lines.length;
      return fresh;
    },
    async stop() {
      await kubectl(REMOVE);
    },
  };
}
