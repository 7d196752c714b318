import { trialSecrets } from "./trial-secrets.ts";

// Input for `kubectl create -f -`, which refuses existing objects. The secrets are never written to a file.
const items = (await trialSecrets(new Date())).map(({ name, values }) => ({
  apiVersion: "v1",
  kind: "Secret",
  metadata: { name, namespace: "gatehouse", labels: { "app.kubernetes.io/part-of": "gatehouse" } },
  stringData: values,
}));
process.stdout.write(`${JSON.stringify({ apiVersion: "v1", kind: "List", items }, undefined, 2)}\n`);
