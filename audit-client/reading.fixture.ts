import type { AuditEvent } from "./audit-entry.ts";
import { createReadingRecorder, type RecordReading } from "./record-reading.ts";

/** What services note of reading, and what the audit log would get. */
export function noteReadings(): { recordReading: RecordReading; noted: AuditEvent[] } {
  const noted: AuditEvent[] = [];
  const recordEvent = async (event: AuditEvent) => void noted.push(event);
  return { recordReading: createReadingRecorder({ recordEvent }, () => new Date()), noted };
}
