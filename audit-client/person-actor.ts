import type { AuditActor } from "./audit-entry.ts";

/** @param person of a certificate: `operator:ada`. @returns the actor of what they did: role `OPERATOR` or `AUDITOR`. */
export function personActor(person: string): AuditActor {
  return { userId: person, role: person.slice(0, person.indexOf(":")).toUpperCase() };
}
