import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createReadStream, existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import type { certificateFiles } from "#deploy/local/certificates.ts";
import { freePort } from "#tests/support/system/free-port.ts";
import { until } from "../../support.ts";

const SETUP = "trials/bench/peers/setup.sh";
const COLLECTOR = resolve(import.meta.dirname, "..", "peers", ".installed", "bin", "otel-collector");
const RSYSLOG = "/usr/sbin/rsyslogd";
const RSYSLOG_TLS = [
  "/usr/lib/x86_64-linux-gnu/rsyslog",
  "/usr/lib/aarch64-linux-gnu/rsyslog",
  "/usr/lib/rsyslog",
];
const BOM = "\u{feff}";

interface Place {
  log: number;
  sequence: number;
}

export interface SiemReceiver {
  name: "otlp" | "syslog";
  /** For event-service. */
  environment: Record<string, string>;
  start(): Promise<void>;
  /** kill -9 */
  kill(): Promise<void>;
  /** What it has in its file, as often as it has it. */
  read(): Promise<Place[]>;
}

type Files = ReturnType<typeof certificateFiles>;

/** What is installed. It says what is not. */
export async function siemReceivers(folder: string, files: Files): Promise<SiemReceiver[]> {
  await mkdir(folder, { recursive: true });
  const receivers: SiemReceiver[] = [];
  if (existsSync(COLLECTOR)) receivers.push(await collector(folder, files));
  else console.log(`SKIPPED: no OpenTelemetry collector (${SETUP} collector)`);
  const hasTls = RSYSLOG_TLS.some((path) => existsSync(join(path, "lmnsd_ossl.so")));
  if (existsSync(RSYSLOG) && hasTls) receivers.push(await rsyslog(folder, files));
  else console.log(`SKIPPED: no rsyslog with TLS (${SETUP} rsyslog)`);
  return receivers;
}

async function collector(folder: string, files: Files): Promise<SiemReceiver> {
  const [port, output, config] = [await freePort(), join(folder, "otlp.jsonl"), join(folder, "otlp.yaml")];
  const tls = { cert_file: files.certificate, key_file: files.key };
  // Without rotation the exporter keeps up to a second in memory.
  const file = { path: output, rotation: { max_megabytes: 10_000 } };
  await writeFile(
    config,
    JSON.stringify({
      receivers: { otlp: { protocols: { http: { endpoint: `127.0.0.1:${port}`, tls } } } },
      exporters: { file },
      service: {
        telemetry: { metrics: { level: "none" } },
        pipelines: { logs: { receivers: ["otlp"], exporters: ["file"] } },
      },
    }),
  );
  return {
    name: "otlp",
    environment: { SIEM_OTLP_URL: `https://127.0.0.1:${port}/v1/logs` },
    ...killable(port, COLLECTOR, ["--config", `file:${config}`]),
    read: () =>
      placesIn(output, (line) =>
        // What was cut by a kill has no end of its line.
        line
          .split(/(?=\{"resourceLogs")/)
          .flatMap(parsed<LogsData>)
          .flatMap(({ resourceLogs }) => resourceLogs)
          .flatMap(({ scopeLogs }) => scopeLogs)
          .flatMap(({ logRecords }) => logRecords)
          .map(({ body }) => JSON.parse(body.stringValue) as Place),
      ),
  };
}

interface LogsData {
  resourceLogs: { scopeLogs: { logRecords: { body: { stringValue: string } }[] }[] }[];
}

async function rsyslog(folder: string, files: Files): Promise<SiemReceiver> {
  const [port, output, config] = [await freePort(), join(folder, "syslog.log"), join(folder, "rsyslog.conf")];
  // The main queue is in memory by default, and lost with the process.
  await writeFile(
    config,
    `global(workDirectory="${folder}" maxMessageSize="16k" defaultNetstreamDriver="ossl"
  defaultNetstreamDriverCAFile="${files.authority}"
  defaultNetstreamDriverCertFile="${files.certificate}" defaultNetstreamDriverKeyFile="${files.key}")
main_queue(queue.type="direct")
module(load="imtcp" streamDriver.name="ossl" streamDriver.mode="1" streamDriver.authMode="anon")
input(type="imtcp" address="127.0.0.1" port="${port}")
template(name="whole" type="string" string="%rawmsg%\\n")
action(type="omfile" file="${output}" template="whole")
`,
  );
  return {
    name: "syslog",
    environment: { SIEM_SYSLOG_ADDRESS: `127.0.0.1:${port}` },
    ...killable(port, RSYSLOG, ["-n", "-f", config, "-i", join(folder, "rsyslog.pid")]),
    read: () => placesIn(output, (line) => parsed<Place>(line.slice(line.lastIndexOf(BOM) + 1))),
  };
}

/** Line by line: the file may be longer than a string can be. */
async function placesIn(path: string, read: (line: string) => Place[]): Promise<Place[]> {
  const places: Place[] = [];
  for await (const line of createInterface(createReadStream(path)))
    for (const { log, sequence } of read(line)) places.push({ log, sequence });
  return places;
}

/** Empty for what was cut when the receiver was killed. */
function parsed<T>(text: string): T[] {
  try {
    return [JSON.parse(text) as T];
  } catch {
    return [];
  }
}

function killable(port: number, program: string, given: string[]) {
  let child: ChildProcess | undefined;
  return {
    async start() {
      child = spawn(program, given, { stdio: "ignore" });
      await until(`${program} listens`, () => listens(port), 30_000);
    },
    async kill() {
      if (child === undefined || child.exitCode !== null) return;
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    },
  };
}

async function listens(port: number): Promise<boolean> {
  const socket = connect({ port, host: "127.0.0.1" });
  try {
    await once(socket, "connect");
    return true;
  } finally {
    socket.destroy();
  }
}
