import { callUnary } from "#kit/rpc/rpc-client.ts";
import { type ListPartsResponse, PartServiceClient } from "#proto/gatehouse/token/v1/part_service.ts";
import type { Backend } from "../../backend.ts";
import type { Command } from "../../command.ts";
import { UsageError } from "../../usage-error.ts";
import { createProgress, QUIET_OPTION } from "../progress.ts";
import { table } from "../table.ts";
import { wholeNumber } from "../whole-number.ts";

const SLOTS = 4_096;
/** So that each call ends well before its deadline. */
const BATCH = 16;
/** In place of a part: slots that no part has, or more than one. */
const ASTRAY = "astray";

const listParts = (backend: Backend): Promise<ListPartsResponse> =>
  backend.call("token-service", PartServiceClient, (client, context) =>
    callUnary(client, client.listParts, {}, context),
  );

export const partsList: Command = {
  name: "parts list",
  summary: "Show the parts of the users, and which slots each has",
  details: `SLOTS counts the hashes of users' ids, ${SLOTS} in all. A part whose log was read more than 3 s ago refuses its users.`,
  positionals: [],
  options: {},
  async run(_input, backend) {
    const { parts, astray } = await listParts(backend);
    const rows = parts.map(({ number, slots, lagS }) => [
      String(number),
      String(slots.length),
      Number.isFinite(lagS) ? `${lagS.toFixed(1)} s ago` : "never",
    ]);
    const lost =
      astray.length === 0 ? "" : `\n\nIn no part, or in several: ${astray.length} slots (${ASTRAY})`;
    return { text: table(["PART", "SLOTS", "READ"], rows) + lost, json: { parts, astray } };
  },
};

export const partsMove: Command = {
  name: "parts move",
  summary: "Move sessions to another part while they are used",
  details:
    `<from> and <to> are numbers of parts; <from> may be ${ASTRAY}, for what \`parts list\` says is nowhere.\n` +
    "A session that is used meanwhile waits, less than a second. Stop the command as you like, and give it again to go on, or with the\n" +
    "parts exchanged to go back. All replicas must know both parts: docs/operations/past-one-postgres.md",
  positionals: ["from", "to"],
  options: {
    slots: {
      type: "string",
      value: "number",
      description: `how many of the ${SLOTS}; default: all that <from> has`,
    },
    "dry-run": { type: "boolean", description: "say what would move" },
    ...QUIET_OPTION,
  },
  checkWith: "gatehouse parts list",
  async run({ positionals: [from = "", to = ""], values, flags }, backend, terminal) {
    const most = wholeNumber(values, "slots", { min: 1, max: SLOTS }) ?? SLOTS;
    const known = await listParts(backend);
    const partOf = (text: string) => known.parts.find(({ number }) => String(number) === text);
    const slots = from === ASTRAY ? known.astray : partOf(from)?.slots;
    const target = partOf(to);
    if (slots === undefined || target === undefined || from === to)
      throw new UsageError(
        `<from> and <to> must be two of: ${known.parts.map(({ number }) => number).join(", ")}`,
      );
    const wanted = slots.slice(0, most);
    if (flags.has("dry-run")) {
      const text = `${wanted.length} of ${slots.length} slots would move from ${from} to ${to}`;
      return { text, json: { slots: wanted } };
    }
    using progress = createProgress(terminal, flags, "slots");
    let sessions = 0;
    let longestMs = 0;
    for (let done = 0; done < wanted.length; done += BATCH) {
      progress.show(done, wanted.length);
      const request = { slots: wanted.slice(done, done + BATCH), part: target.number };
      const moved = await backend.call("token-service", PartServiceClient, (client, context) =>
        callUnary(client, client.moveSlots, request, context),
      );
      sessions += moved.sessions;
      longestMs = Math.max(longestMs, moved.longestMs);
    }
    const text = `${wanted.length} slots with ${sessions} sessions moved from ${from} to ${to}; none was away for more than ${longestMs} ms`;
    return { text, json: { slots: wanted, sessions, longestMs } };
  },
};
