import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Manifest } from "#deploy/k8s/render.ts";
import type { Kubectl } from "./kubectl.ts";
import { eventually, NAMESPACE } from "./kubectl.ts";
import { type LoadLine, parseLoadLines } from "./load-lines.ts";

const LOAD = "load";

/** What the pod needs of this folder: it runs on Node.js alone. */
const FILES = ["load.ts", "answers.ts", "http-calls.ts", "load-lines.ts"];
const FOLDER = "/load";

export interface LoadSettings {
  /** Calls a second. */
  rate: number;
  /** The share of the calls that are logins. */
  logins: number;
  /** Of the gateway, or of the proxy in front of it. */
  url: string;
  host: string;
  /** Different for each load, because its users register. */
  run: string;
}

/** The pod that calls the gateway, with the programs that it runs. @param image has Node.js. */
export function loadPod(image: string, settings: LoadSettings): Manifest[] {
  const labels = { "app.kubernetes.io/name": LOAD, "app.kubernetes.io/part-of": "gatehouse" };
  const metadata = { name: LOAD, namespace: NAMESPACE, labels };
  const text = (name: string) => readFileSync(join(import.meta.dirname, name), "utf8");
  const environment = {
    RATE: String(settings.rate),
    LOGINS: String(settings.logins),
    GATEWAY_URL: settings.url,
    GATEWAY_HOST: settings.host,
    RUN: settings.run,
  };
  return [
    {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata,
      data: {
        ...Object.fromEntries(FILES.map((name) => [name, text(name)])),
        "package.json": '{"type":"module"}',
      },
    },
    {
      apiVersion: "v1",
      kind: "Pod",
      metadata,
      spec: {
        serviceAccountName: LOAD,
        automountServiceAccountToken: false,
        enableServiceLinks: false,
        restartPolicy: "Never",
        terminationGracePeriodSeconds: 1,
        securityContext: {
          runAsNonRoot: true,
          runAsUser: 10001,
          runAsGroup: 10001,
          seccompProfile: { type: "RuntimeDefault" },
        },
        containers: [
          {
            name: LOAD,
            image,
            command: ["node", `${FOLDER}/load.ts`],
            env: Object.entries(environment).map(([name, value]) => ({ name, value })),
            securityContext: {
              allowPrivilegeEscalation: false,
              readOnlyRootFilesystem: true,
              capabilities: { drop: ["ALL"] },
            },
            resources: {
              requests: { cpu: "50m", memory: "128Mi" },
              limits: { memory: "512Mi", "ephemeral-storage": "64Mi" },
            },
            volumeMounts: [{ name: "programs", mountPath: FOLDER, readOnly: true }],
          },
        ],
        volumes: [{ name: "programs", configMap: { name: LOAD } }],
      },
    },
  ];
}

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
