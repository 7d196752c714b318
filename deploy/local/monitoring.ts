import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { stringify } from "yaml";
import { z } from "zod";

/** Prometheus beside a local Gatehouse, with the rules of deploy/monitoring. It ends with this process. */
const { PROMETHEUS_ADDRESS, PROMETHEUS_DIRECTORY, TARGETS } = z
  .object({
    PROMETHEUS_ADDRESS: z.string().min(1),
    PROMETHEUS_DIRECTORY: z.string().min(1),
    TARGETS: z.string().transform((text) => text.split(",")),
  })
  .parse(process.env);

const configuration = {
  global: { scrape_interval: "5s", evaluation_interval: "15s" },
  rule_files: [resolve(import.meta.dirname, "..", "monitoring", "gatehouse.rules.yaml")],
  scrape_configs: [{ job_name: "gatehouse", static_configs: [{ targets: TARGETS }] }],
};
mkdirSync(PROMETHEUS_DIRECTORY, { recursive: true, mode: 0o700 });
const file = join(PROMETHEUS_DIRECTORY, "prometheus.yaml");
writeFileSync(file, stringify(configuration));

const prometheus = spawn(
  "prometheus",
  [
    `--config.file=${file}`,
    `--storage.tsdb.path=${join(PROMETHEUS_DIRECTORY, "data")}`,
    "--storage.tsdb.retention.time=7d",
    `--web.listen-address=${PROMETHEUS_ADDRESS}`,
    "--log.level=warn",
  ],
  { stdio: ["ignore", "inherit", "inherit"] },
);
let isStopping = false;
const stop = () => {
  isStopping = true;
  prometheus.kill("SIGTERM");
};
for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, stop);
// The launcher is gone.
process.on("disconnect", stop);
prometheus.on("exit", (code) => process.exit(isStopping ? 0 : (code ?? 1)));
prometheus.on("error", (error) => {
  process.stderr.write(`prometheus could not be started: ${error.message}\n`);
  process.exit(1);
});
