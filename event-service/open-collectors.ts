import { readFileSync } from "node:fs";
import type { EventConfig } from "./config.ts";
import type { Collector } from "./siem/collector.ts";
import type { CollectorName } from "./siem/collector-store.ts";
import type { EntryReader } from "./siem/entry-reader.ts";
import { readHeadersFile } from "./siem/headers-file.ts";
import { openOtlpCollector } from "./siem/otlp.ts";
import { openSyslogCollector } from "./siem/syslog.ts";

interface Deps {
  reader: EntryReader;
  now: () => Date;
}

/** How to open each collector that is configured. Files are read when it is opened. */
export function configuredCollectors(
  config: EventConfig,
  deps: Deps,
): ReadonlyMap<CollectorName, () => Collector> {
  const { SIEM_OTLP_URL: otlpUrl, SIEM_OTLP_HEADERS_FILE: headersFile, SIEM_CA_FILE: caFile } = config;
  const ca = () => (caFile === undefined ? undefined : readFileSync(caFile, "utf8"));
  const collectors = new Map<CollectorName, () => Collector>();
  if (otlpUrl !== undefined) {
    const headers = () => (headersFile === undefined ? {} : readHeadersFile(headersFile));
    collectors.set("otlp", () => openOtlpCollector({ ...deps, url: otlpUrl, headers, ca: ca() }));
  }
  const {
    SIEM_SYSLOG_ADDRESS: address,
    SIEM_SYSLOG_CERT_FILE: certFile,
    SIEM_SYSLOG_KEY_FILE: keyFile,
  } = config;
  if (address !== undefined) {
    const client = () =>
      certFile && keyFile ? { cert: readFileSync(certFile), key: readFileSync(keyFile) } : {};
    const tls = () => ({ ca: ca(), ...client() });
    const { hostname } = new URL(config.PUBLIC_ORIGIN);
    collectors.set("syslog", () => openSyslogCollector({ ...deps, address, tls, hostname }));
  }
  return collectors;
}
