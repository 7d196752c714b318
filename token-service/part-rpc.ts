import { z } from "zod";
import type { RecordReading } from "#audit-client/stream/record-reading.ts";
import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { PartServiceServer } from "#proto/gatehouse/token/v1/part_service.ts";
import { SLOTS } from "#token-client/session-slot.ts";
import { type MoveSlotsDeps, moveSlot } from "./parts/move-slots.ts";

export const partCallers: Callers<PartServiceServer> = {
  listParts: ["operator"],
  moveSlots: ["operator"],
};

const MAX_SLOTS = 64;
/** Connections of each part that moves take. */
const AT_ONCE = 4;
const slotList = z
  .array(z.int().max(SLOTS - 1))
  .min(1)
  .max(MAX_SLOTS);

export function createPartRpc(
  deps: MoveSlotsDeps,
  recordReading: RecordReading,
): Implementation<PartServiceServer> {
  const { parts } = deps;
  return {
    async listParts(_request, context) {
      await recordReading(context, { action: "part.listed" });
      const slots = Array.from({ length: SLOTS }, (_, slot) => slot);
      return {
        parts: parts.all.map((part) => ({
          number: part.number,
          lagS: part.revocations.lagMs / 1_000,
          slots: slots.filter((slot) => parts.holderOf(slot) === part),
        })),
        astray: parts.astraySlots(),
      };
    },
    async moveSlots({ slots, part }, context) {
      const target = parts.all.find(({ number }) => number === part);
      if (target === undefined) throw new DomainError("not_found", `There is no part ${part}`);
      if (!slotList.safeParse(slots).success)
        throw new DomainError("validation_failed", `slots must be 1 to ${MAX_SLOTS} numbers below ${SLOTS}`);
      const filter = `slots=${slots.join(",")}`;
      await recordReading(context, { action: "part.slots_moved", resource: `part ${part}`, filter });
      let sessions = 0;
      let longestMs = 0;
      for (let at = 0; at < slots.length; at += AT_ONCE) {
        const moves = slots.slice(at, at + AT_ONCE).map((slot) => moveSlot(deps, slot, target));
        for (const moved of await Promise.all(moves)) {
          sessions += moved.sessions;
          longestMs = Math.max(longestMs, moved.awayMs);
        }
      }
      return { sessions, longestMs: Math.ceil(longestMs) };
    },
  };
}
