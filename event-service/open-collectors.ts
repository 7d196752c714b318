import { readFileSync } from "node:fs";
import type { Sql } from "#kit/database/postgres.ts";
import type { EventConfig } from "./config.ts";
import type { CollectorName } from "./siem/collector-store.ts";
import type { OpenCollector } from "./siem/collectors.ts";
import type { EntryReader } from "./siem/entry-reader.ts";
import { readHeadersFile } from "./siem/headers-file.ts";
import { openOtlpCollector } from "./siem/otlp.ts";
import { type BucketOptions, openBucket, readCredentials } from "./siem/segment-bucket.ts";
import { openFolder } from "./siem/segment-folder.ts";
import { openSegmentCollector, type SegmentLog } from "./siem/segments.ts";
import { openSyslogCollector } from "./siem/syslog.ts";

interface Deps {
  reader: EntryReader;
  now: () => Date;
  sql: Sql;
  exportLog: SegmentLog["exportLog"];
}

/** How to open each collector that is configured. Files are read when it is opened. */
export function configuredCollectors(
  config: EventConfig,
  deps: Deps,
): ReadonlyMap<CollectorName, OpenCollector> {
  const { SIEM_OTLP_URL: otlpUrl, SIEM_OTLP_HEADERS_FILE: headersFile, SIEM_CA_FILE: caFile } = config;
  const ca = () => (caFile === undefined ? undefined : readFileSync(caFile, "utf8"));
  const collectors = new Map<CollectorName, OpenCollector>();
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
  const { SIEM_SEGMENTS_URL: segments, SIEM_SEGMENT_SECONDS: maxSeconds } = config;
  if (segments !== undefined) {
    collectors.set("segments", (lease) => {
      const place =
        segments.kind === "folder"
          ? openFolder(segments.path)
          : openBucket(bucketOptions(config, deps, ca()));
      return openSegmentCollector({ ...deps, lease, place, maxSeconds });
    });
  }
  return collectors;
}

function bucketOptions(config: EventConfig, { now }: Deps, ca: string | undefined): BucketOptions {
  const { SIEM_S3_REGION: region, SIEM_S3_CREDENTIALS_FILE: file = "" } = config;
  const { SIEM_SEGMENTS_URL: segments, SIEM_S3_ENDPOINT: endpoint = `https://s3.${region}.amazonaws.com` } =
    config;
  const path = segments?.path ?? "";
  return {
    url: `${endpoint.replace(/\/$/, "")}/${path}`,
    region,
    credentials: () => readCredentials(file),
    ca,
    now,
  };
}
