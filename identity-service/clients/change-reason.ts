import { withReason } from "../audit/act-reason.ts";
import type { MachineClient } from "./client-store.ts";

type Described = Pick<MachineClient, "status" | "ownerId" | "name" | "permissions">;

/** Limits the reason of an audit entry, in characters. */
const MAX_REASON = 200;

/**
 * What changed, for the audit log, and then the person's own words: `status disabled, -a:b, +c:d: ticket 4711`. Cut before
 * these words. Undefined if nothing changed.
 */
export function changeReason(before: Described, after: Described, why: string): string | undefined {
  const added = after.permissions.filter((name) => !before.permissions.includes(name));
  const removed = before.permissions.filter((name) => !after.permissions.includes(name));
  const changes = [
    ...(before.status === after.status ? [] : [`status ${after.status}`]),
    ...(before.ownerId === after.ownerId ? [] : [`owner ${after.ownerId}`]),
    ...(before.name === after.name ? [] : ["name"]),
    ...removed.map((name) => `-${name}`),
    ...added.map((name) => `+${name}`),
  ];
  if (changes.length === 0) return undefined;
  const room = MAX_REASON - (withReason("_", why).length - 1);
  return withReason(changes.join(", ").slice(0, room), why);
}
