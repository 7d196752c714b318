import type { AuditEvent } from "./audit-entry.ts";
import { createReadingRecorder, type RecordReading } from "./record-reading.ts";

export function noteReadings(): { recordReading: RecordReading; noted: AuditEvent[] } {
  const noted: AuditEvent[] = [];
  const recordEvent = async (event: AuditEvent) => void noted.push(event);
  return { recordReading: createReadingRecorder({ recordEvent }, () => new Date()), noted };
}
