import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Manifest } from "#deploy/k8s/render.ts";
import { NAMESPACE } from "./kubectl.ts";

export const LOAD = "load";

/** What the pod needs of this folder: it runs on Node.js alone. */
const FILES = ["load.ts", "answers.ts", "http-calls.ts", "load-lines.ts"];
const FOLDER = "/load";

export interface LoadSettings {
  /** Calls a second. */
  rate: number;
  /** The share of the calls that are logins. */
  logins: number;
  host: string;
  /** Different for each load, because its users register. */
  run: string;
}

/** The pod that calls the gateway through its Service, with the programs that it runs. @param image has Node.js. */
export function loadPod(image: string, settings: LoadSettings): Manifest[] {
  const labels = { "app.kubernetes.io/name": LOAD, "app.kubernetes.io/part-of": "gatehouse" };
  const metadata = { name: LOAD, namespace: NAMESPACE, labels };
  const text = (name: string) => readFileSync(join(import.meta.dirname, name), "utf8");
  const environment = {
    RATE: String(settings.rate),
    LOGINS: String(settings.logins),
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
