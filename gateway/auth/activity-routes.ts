import { z } from "zod";
import { AUDIT_ACTIONS, type AuditAction, LOGIN_ACTIONS } from "#audit-client/stream/audit-actions.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { type Entry, EntryKind, Outcome } from "#proto/gatehouse/audit/v1/entry.ts";
import type { Backends } from "../backends/backends.ts";
import { success } from "../edge/answers/envelope.ts";
import { principalOf } from "../edge/request/caller.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { pageFields } from "../routing/fields.ts";
import { answersWith } from "../routing/route-docs.ts";
import { idField, nextCursorField, timeField } from "./answer-fields.ts";

/** All events of the log that a person sees: `user.<name>` and `session.<name>`. */
const EVENTS = [
  "login_failed",
  "password_changed",
  "password_reset",
  "password_change_required",
  "profile_updated",
  "email_verified",
  "email_changed",
  "email_change_undone",
  "access_change_undone",
  "mfa_enabled",
  "mfa_disabled",
  "mfa_reset",
  "recovery_codes_renewed",
  "recovery_code_used",
  "device_trusted",
  "trusted_device_removed",
  "passkey_added",
  "passkey_removed",
  "identity_linked",
  "identity_unlinked",
  "approval_given",
  "session_ended",
  "sessions_ended",
  "refresh_reused",
  "role_changed",
  "status_changed",
  "unlocked",
  "link_mailed",
] as const satisfies readonly NameOf<AuditAction>[];
type NameOf<Action> = Action extends `${"user" | "session"}.${infer Name}` ? Name : never;

/** Its actor is the owner of the token. Who presented it is unknown. */
const REFRESH_REUSED: AuditAction = "session.refresh_reused";

/** Of what the log says about users, so that a page is not spent on it. */
const NOT_SHOWN: readonly string[] = [
  ...AUDIT_ACTIONS.administration,
  ...AUDIT_ACTIONS.reading,
  ...AUDIT_ACTIONS.user.filter((action) => !EVENTS.some((name) => action === `user.${name}`)),
];

/** Entries that are not shown may fill pages: a path may name an account. Then a page is short. */
const MAX_SEARCHES = 5;

const activityAnswer = z
  .strictObject({
    id: idField,
    action: z.enum(["login", "logout", ...EVENTS]),
    occurredAt: timeField,
    by: z.enum(["you", "support", "unknown"]),
    ip: z.string().meta({ description: "Empty if unknown, or of support." }),
    userAgent: z.string(),
  })
  .meta({ id: "Activity" });
type Activity = z.output<typeof activityAnswer>;

export function registerActivityRoutes(app: GatewayApp, { auditQuery }: Pick<Backends, "auditQuery">): void {
  routeIn(app, "Accounts")("listActivity", "GET", "/auth/me/activity", {
    summary: "List what happened to one's account",
    description:
      "From the audit log, some seconds later. A page may be short, or empty, before the last one.",
    policy: { auth: "authenticated", limitClass: "account" },
    schema: {
      querystring: z.strictObject(pageFields({ max: 50, pattern: /^([1-9]|[1-4]\d|50)$/, standard: 10 })),
    },
    answers: answersWith(
      "A page, newest first.",
      z.strictObject({ activity: z.array(activityAnswer), nextCursor: nextCursorField }),
    ),
    handler: async (request) => {
      const { userId } = principalOf(request);
      const found = await readActivity({ auditQuery, userId }, request.query, request.state.call);
      return success(found, "Your recent activity, newest first.");
    },
  });
}

async function readActivity(
  { auditQuery, userId }: Pick<Backends, "auditQuery"> & { userId: string },
  { cursor = "", limit }: { cursor?: string | undefined; limit: number },
  call: CallContext,
): Promise<{ activity: Activity[]; nextCursor: string | null }> {
  const activity: Activity[] = [];
  let next = cursor;
  for (let searches = 0; searches < MAX_SEARCHES; searches += 1) {
    const page = await auditQuery.searchEntries(
      {
        actorUserId: "",
        action: "",
        resource: userId,
        outcome: Outcome.UNSPECIFIED,
        withoutActions: [...NOT_SHOWN],
        requestId: "",
        from: undefined,
        to: undefined,
        cursor: next,
        limit: limit - activity.length,
      },
      call,
    );
    activity.push(...page.entries.flatMap((entry) => toActivity(entry, userId) ?? []));
    next = page.nextCursor;
    if (next === "" || activity.length >= limit) break;
  }
  return { activity, nextCursor: next || null };
}

/** Undefined for what is not shown. Nothing of the entry is passed on that could name another person. */
function toActivity(entry: Entry, userId: string): Activity | undefined {
  const { id, occurredAt, clientIp, userAgent } = entry;
  if (occurredAt === undefined) throw new Error("audit-service sent an entry without time");
  const actorId = entry.actor?.userId ?? "";
  const isUnknown = actorId === "" || entry.action === REFRESH_REUSED;
  const by = isUnknown ? "unknown" : actorId === userId ? "you" : "support";
  const action = actionOf(entry, by);
  if (action === undefined || entry.resource !== userId) return undefined;
  return {
    id,
    action,
    occurredAt: occurredAt.toISOString(),
    by,
    ...(by === "support" ? { ip: "", userAgent: "" } : { ip: clientIp, userAgent }),
  };
}

/** Anybody can make a call whose path names an account. Only the caller whom it proved has begun or ended a session. */
function actionOf({ kind, action, outcome }: Entry, by: Activity["by"]): Activity["action"] | undefined {
  if (kind === EntryKind.EVENT)
    return EVENTS.find((name) => action === `user.${name}` || action === `session.${name}`);
  if (kind !== EntryKind.OUTCOME || by !== "you" || outcome !== Outcome.SUCCESS) return undefined;
  if (action === "auth.logout") return "logout";
  if (action === "auth.session_end") return "session_ended";
  return LOGIN_ACTIONS.some((name) => name === action) ? "login" : undefined;
}
