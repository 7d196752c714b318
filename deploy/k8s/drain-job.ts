import type { Container } from "./manifests.ts";
import type { Manifest } from "./render.ts";

/** A request that cannot be met. The message is for the operator. */
export class DrainRefused extends Error {
  override readonly name = "DrainRefused";
}

const LABEL = "app.kubernetes.io/name";
/** Whom the network policies let through to audit-service, and no Service sends clients to. */
const DRAIN_LABEL = "drain-spool";

/**
 * The Job that sends what a replica of the gateway has left in its claim. Everything but the program is as in the
 * replicas themselves: image, certificate, configuration, user.
 *
 * @param statefulSet the gateway's, as the cluster has it.
 * @param replica its name, such as `gateway-3`.
 * @throws {DrainRefused} if it is a replica that runs or is to run: it sends what it has by itself.
 */
export function drainJob(statefulSet: Manifest, replica: string): Manifest {
  const { metadata, spec } = statefulSet;
  const ordinal = Number(new RegExp(`^${metadata.name}-(\\d+)$`).exec(replica)?.[1] ?? Number.NaN);
  if (Number.isNaN(ordinal)) throw new DrainRefused(`${replica} is no replica of ${metadata.name}`);
  if (spec.replicas === undefined) {
    throw new DrainRefused(
      "How many replicas there are is not said: give the StatefulSet of the cluster, not of a file",
    );
  }
  if (ordinal < spec.replicas) {
    throw new DrainRefused(
      `${replica} is one of ${spec.replicas} replicas that are to run: it sends what it has by itself`,
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
          restartPolicy: "Never", // a failed try stays to be read
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

/** The fields of an object that it has, of some. */
function picked(from: Record<string, unknown>, fields: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(fields.filter((field) => field in from).map((field) => [field, from[field]]));
}
