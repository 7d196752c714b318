import type { AuditEvent, AuditEventRecorder, AuditRecorder } from "../stream/audit-entry.ts";
import type { Recorder } from "./recorder.ts";

/** The recorders of a process, one for each log that it writes to. */
export class AuditLogs implements AuditEventRecorder {
  readonly #recorders: readonly Recorder[];
  #turn = 0;

  /** @param recorders At least one. */
  constructor(recorders: readonly Recorder[]) {
    this.#recorders = recorders;
  }

  /**
   * Of the log whose turn it is, without those that are late or away while others are not. Takes an intent and then its outcome:
   * both are in one log.
   */
  next(): AuditRecorder {
    return this.#next();
  }

  recordEvent(event: AuditEvent, deadlineMs: number): Promise<void> {
    return this.#next().recordEvent(event, deadlineMs);
  }

  /** @throws {DomainError} `audit_unavailable` while nothing can be recorded in any log. */
  assertReady(): void {
    if (!this.#recorders.some(isReady)) this.#recorders[0]?.assertReady();
  }

  /** Waits at most `graceMs` for queued entries. */
  async close(graceMs: number): Promise<void> {
    await Promise.all(this.#recorders.map((recorder) => recorder.close(graceMs)));
  }

  #next(): Recorder {
    const at = this.#find((recorder) => recorder.isPrompt) ?? this.#find(isReady) ?? this.#turn;
    this.#turn = (at + 1) % this.#recorders.length;
    return this.#recorders[at] as Recorder;
  }

  /** Looks from the turn on. */
  #find(suits: (recorder: Recorder) => boolean): number | undefined {
    const { length } = this.#recorders;
    // The only log has every turn.
    if (length === 1) return 0;
    for (let step = 0; step < length; step += 1) {
      const at = (this.#turn + step) % length;
      if (suits(this.#recorders[at] as Recorder)) return at;
    }
    return undefined;
  }
}

function isReady(recorder: Recorder): boolean {
  try {
    recorder.assertReady();
    return true;
  } catch {
    return false;
  }
}
