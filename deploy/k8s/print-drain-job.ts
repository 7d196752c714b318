import { text } from "node:stream/consumers";
import { DrainRefused, drainJob } from "./drain-job.ts";
import type { Manifest } from "./render.ts";

// kubectl -n gatehouse get statefulset gateway -o json | npm run --silent drain-claim -- gateway-3 | kubectl create -f -
const EXIT_USAGE = 64;

const [replica, ...rest] = process.argv.slice(2);
if (replica === undefined || rest.length > 0 || process.stdin.isTTY) {
  process.stderr.write(
    "Usage: kubectl get statefulset gateway -o json | npm run --silent drain-claim -- gateway-N\n",
  );
  process.exit(EXIT_USAGE);
}
try {
  const job = drainJob(JSON.parse(await text(process.stdin)) as Manifest, replica);
  process.stdout.write(`${JSON.stringify(job, undefined, 2)}\n`);
} catch (error) {
  if (!(error instanceof DrainRefused || error instanceof SyntaxError)) throw error;
  process.stderr.write(
    `${error instanceof SyntaxError ? "Standard input is not a StatefulSet in JSON" : error.message}\n`,
  );
  process.exitCode = 1;
}
