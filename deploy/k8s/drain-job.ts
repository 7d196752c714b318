import type { Container } from "./manifests.ts";
import type { Manifest } from "./render.ts";

export class DrainRefused extends Error {
  override readonly name = "DrainRefused";
}

const LABEL = "app.kubernetes.io/name";
/** Network policies allow this label to call audit-service, and no Service selects it. */
const DRAIN_LABEL = "drain-spool";

/**
 * Sends the orphaned spool of a removed replica.
 * @param statefulSet as read from the cluster. @param replica the pod, such as `gateway-3`.
 * @throws {DrainRefused} if the replica is running or scheduled to run: it sends its spool itself.
 */
export function drainJob(statefulSet: Manifest, replica: string): Manifest {
  const { metadata, spec } = statefulSet;
  const ordinal = Number(new RegExp(`^${metadata.name}-(\\d+)$`).exec(replica)?.[1] ?? Number.NaN);
  if (Number.isNaN(ordinal)) throw new DrainRefused(`${replica} is not a replica of ${metadata.name}`);
  if (spec.replicas === undefined) {
    throw new DrainRefused("spec.replicas is missing: use the StatefulSet from the cluster, not from a file");
  }
  if (ordinal < spec.replicas) {
    throw new DrainRefused(
      `${replica} is one of the ${spec.replicas} desired replicas, which sends its entries itself`,
    );
  }
  const claim: string = spec.volumeClaimTemplates[0].metadata.name;
  const pod = spec.template.spec;
  const container: Container = pod.containers.find(({ name }: Container) => name === metadata.name);
  const labels = { ...spec.template.metadata.labels, [LABEL]: DRAIN_LABEL };
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name: `drain-${replica}`, namespace: metadata.namespace ?? "default", labels },
    spec: {
      backoffLimit: 3,
      activeDeadlineSeconds: 1_800,
      ttlSecondsAfterFinished: 86_400,
      template: {
        metadata: { labels },
        spec: {
          ...picked(pod, [
            "serviceAccountName",
            "automountServiceAccountToken",
            "enableServiceLinks",
            "securityContext",
          ]),
          ...picked(pod, ["imagePullSecrets", "nodeSelector", "tolerations", "priorityClassName"]),
          restartPolicy: "Never", // Keeps the logs of a failed pod.
          containers: [
            {
              ...picked(container, ["image", "imagePullPolicy", "envFrom", "env", "securityContext"]),
              name: DRAIN_LABEL,
              args: ["drain-spool"],
              resources: {
                requests: { cpu: "50m", memory: "96Mi" },
                limits: { memory: "192Mi", "ephemeral-storage": "64Mi" },
              },
              volumeMounts: container.volumeMounts?.filter(({ name }) => ["tls", claim].includes(name)),
            },
          ],
          volumes: [
            ...pod.volumes.filter(({ name }: { name: string }) => name === "tls"),
            { name: claim, persistentVolumeClaim: { claimName: `${claim}-${replica}` } },
          ],
        },
      },
    },
  };
}

function picked(from: Record<string, unknown>, fields: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(fields.filter((field) => field in from).map((field) => [field, from[field]]));
}
