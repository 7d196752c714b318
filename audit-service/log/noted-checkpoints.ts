import type { AuditEvent } from "#audit-client/stream/audit-entry.ts";
import type { Sql } from "#kit/database/postgres.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import type { LogEntry } from "../entries/entry.ts";
import type { TreeHead } from "./checkpoint.ts";
import { selectNotingEntries } from "./checkpoint-store.ts";

const ACTION = "audit.checkpoint_noted";
const NEWEST = 5;

/** What log 0 says of another log: by it, one signed head commits to all logs (docs/audit-log-format.md). */
export interface NotedCheckpoint extends TreeHead {
  /** The note, in log 0. */
  entry: LogEntry;
}

export function noteOf(origin: string, { size, root }: TreeHead, occurredAt: Date): AuditEvent {
  return {
    kind: "event",
    id: uuidv7(),
    occurredAt,
    actor: {},
    action: ACTION,
    resource: origin,
    reason: `${size} ${root.toString("base64")}`,
    clientIp: "",
    userAgent: "",
    requestId: "",
    traceId: "",
    outcome: "success",
  };
}

/** The newest ones, largest first. @param sql of log 0. @param origin of the other log. */
export async function findNotedCheckpoints(sql: Sql, origin: string): Promise<NotedCheckpoint[]> {
  const found = await selectNotingEntries(sql, origin, NEWEST);
  return found
    .map((entry) => {
      const [size = "", root = ""] = entry.reason.split(" ");
      return { entry, size: Number(size), root: Buffer.from(root, "base64") };
    })
    .sort((a, b) => b.size - a.size);
}

interface NotingDeps {
  /** The other log's. */
  origin: string;
  /** The last signed head. Undefined: another replica numbers the log. */
  head: () => TreeHead | undefined;
  /** Stores it in log 0. @throws if it may not be stored. */
  record: (event: AuditEvent) => Promise<void>;
  /** Called at the start, too, with 0. */
  onNoted: (size: number) => void;
  now: () => Date;
}

/** To be repeated: notes each time the newest head, if it is new to this process. */
export function createCheckpointNoting(deps: NotingDeps): () => Promise<void> {
  const { origin, record, now } = deps;
  let notedSize = 0;
  deps.onNoted(notedSize);
  return async () => {
    const head = deps.head();
    if (head === undefined || head.size === notedSize) return;
    await record(noteOf(origin, head, now()));
    notedSize = head.size;
    deps.onNoted(notedSize);
  };
}
