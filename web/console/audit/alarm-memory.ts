import type { Alarm } from "./check-log.ts";

/** What stays of an alarm when the page is loaded again: whoever changes answers could make somebody do that. */
type Kept = Omit<Alarm, "evidence">;

const STORED = "gatehouse.audit-alarm";
/** Entries of the log: of this tab alone, and for whom they were read. */
const EVIDENCE = "gatehouse.audit-evidence";
const listeners = new Set<() => void>();

/** The first one stays. */
export function keepAlarm({ evidence, ...kept }: Alarm, userId: string): void {
  if (storedAlarm() !== null) return;
  attempt(() => localStorage.setItem(STORED, JSON.stringify(kept)));
  // It may be larger than a storage: then the alarm stays without it.
  attempt(() => sessionStorage.setItem(EVIDENCE, JSON.stringify({ userId, at: kept.at, evidence })));
  for (const changed of listeners) changed();
}

export function endAlarm(): void {
  attempt(() => localStorage.removeItem(STORED));
  attempt(() => sessionStorage.removeItem(EVIDENCE));
  for (const changed of listeners) changed();
}

/** For `subscribeToAlarm`: a text, which is the same as long as the alarm is. */
export function storedAlarm(): string | null {
  try {
    return localStorage.getItem(STORED);
  } catch {
    return null;
  }
}

export function subscribeToAlarm(changed: () => void): () => void {
  listeners.add(changed);
  // Other tabs.
  addEventListener("storage", changed);
  return () => {
    listeners.delete(changed);
    removeEventListener("storage", changed);
  };
}

/** @param stored by `storedAlarm`. What cannot be read is an alarm all the same. */
export function readAlarm(stored: string, userId: string): Alarm {
  const { finding = "form", at = new Date(0).toISOString(), entryId } = objectOf(stored) as Partial<Kept>;
  return { finding, at, ...(entryId !== undefined && { entryId }), evidence: readEvidence(at, userId) };
}

function readEvidence(at: string, userId: string): object {
  let text = "{}";
  attempt(() => {
    text = sessionStorage.getItem(EVIDENCE) ?? text;
  });
  const found = objectOf(text) as { userId?: string; at?: string; evidence?: object };
  return (found.userId === userId && found.at === at && found.evidence) || {};
}

function objectOf(text: string): object {
  try {
    return { ...JSON.parse(text) };
  } catch {
    return {};
  }
}

function attempt(use: () => void): void {
  try {
    use();
  } catch {
    // Full or forbidden: the alarm is then as long as the page.
  }
}
