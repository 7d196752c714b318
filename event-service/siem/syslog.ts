import { splitAddress } from "#kit/config/config.ts";
import type { Collector } from "./collector.ts";
import type { EntryReader } from "./entry-reader.ts";
import { toSyslogFrame } from "./rfc5424.ts";
import { connectSyslog, type SyslogConnectionOptions } from "./syslog-connection.ts";

const MAX_READ = 500;
const IDLE_MS = 200;
const DEADLINE_MS = 10_000;
/** Until the receiver must say that it has read everything, by ending the connection. */
const PERIOD_MS = 5_000;
const MAX_UNCONFIRMED = 10_000;

export interface SyslogOptions {
  /** host:port */
  address: string;
  /** Read for each connection, so that a new certificate needs no restart. @throws {Error} */
  tls(): SyslogConnectionOptions["tls"];
  hostname: string;
  reader: EntryReader;
  periodMs?: number;
  deadlineMs?: number;
}

/**
 * Sends syslog (RFC 5424) over TLS (RFC 5425). Syslog has no acknowledgement, so each connection is ended after a while, and entries count as
 * sent when the receiver has ended it too.
 */
export function openSyslogCollector(options: SyslogOptions): Collector {
  const { address, tls, hostname, reader, periodMs = PERIOD_MS, deadlineMs = DEADLINE_MS } = options;
  return {
    name: "syslog",
    idleMs: IDLE_MS,
    async push(places, signal) {
      let read = await reader.after(places, MAX_READ);
      if (read.entries.length === 0) return undefined;
      const connection = await connectSyslog({ ...splitAddress(address), tls: tls(), deadlineMs, signal });
      const endMs = performance.now() + periodMs;
      let unconfirmed = 0;
      try {
        for (;;) {
          const { entries } = read;
          if (entries.length === 0) await connection.pause(IDLE_MS);
          else await connection.write(entries.map((entry) => toSyslogFrame(entry, hostname)).join(""));
          unconfirmed += entries.length;
          if (unconfirmed >= MAX_UNCONFIRMED || performance.now() >= endMs) break;
          // What was sent counts although no more can be read: the next run says why.
          const more = await reader.after(read.next, MAX_READ).catch(() => undefined);
          if (more === undefined) break;
          read = more;
        }
        await connection.end();
        return read.next;
      } finally {
        connection.destroy();
      }
    },
    close: () => Promise.resolve(),
  };
}
