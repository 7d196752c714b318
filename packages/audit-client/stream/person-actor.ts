import type { AuditActor } from "./audit-entry.ts";

/** @param person Name from the certificate: `operator:ada`. */
export function personActor(person: string): AuditActor {
  return { userId: person, role: person.slice(0, person.indexOf(":")).toUpperCase() };
}
