import { z } from "zod";
import type { AccessRules } from "#access-file/access-rules.ts";
import { createFollowingRecorder, filterText } from "#audit-client/stream/record-reading.ts";
import { DomainError } from "#kit/values/errors.ts";
import { SummaryInterval } from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { timeField } from "../auth/answer-fields.ts";
import type { Backends } from "../backends/backends.ts";
import { success } from "../edge/answers/envelope.ts";
import type { NoteReading } from "../edge/audit.ts";
import { principalOf } from "../edge/request/caller.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { intLike, textLike } from "../routing/fields.ts";
import { answersWith } from "../routing/route-docs.ts";
import type { AdminPolicy } from "../routing/route-policy.ts";
import { auditEntryAnswer, toAuditEntry } from "./audit-entry-answer.ts";
import { assertMayNamePeople, peopleAnswer, peopleField, peopleIn } from "./audit-people.ts";
import {
  auditFilterFields,
  auditTimeField,
  placeField,
  placeText,
  sequenceField,
  toEntryFilter,
} from "./audit-query-fields.ts";

const DAY_MS = 24 * 3_600_000;

const INTERVALS = { hour: SummaryInterval.HOUR, day: SummaryInterval.DAY } as const;

const summary = z.strictObject({
  from: timeField.meta({ description: "As it was counted: whole hours or days of UTC." }),
  to: timeField,
  buckets: z
    .array(z.strictObject({ start: timeField, logins: intLike(412), failures: intLike(17) }))
    .meta({ description: "In the order of time. An hour or day without logins and failures is left out." }),
  refusals: z
    .array(z.strictObject({ reason: textLike("wrong_password"), count: intLike(17) }))
    .meta({ description: "By the reason of the entries `user.login_failed`, most frequent first." }),
  openIntents: z
    .strictObject({ count: intLike(0), oldest: timeField.nullable() })
    .meta({ description: "Calls that have had no outcome for a minute or more, counted up to 10,000." }),
  countedUpTo: intLike(1042, "Sequence of the last entry in the counts: some seconds behind `size`."),
  size: intLike(1042, "Sequence of the last entry of the log; of several logs the sum, as `countedUpTo`."),
});

interface MonitorDeps extends Pick<Backends, "auditQuery" | "users"> {
  access: AccessRules;
  noteReading: NoteReading;
  adminPolicy: AdminPolicy;
  monotonicMs?: () => number;
}

export function registerAuditMonitorRoutes(app: GatewayApp, deps: MonitorDeps): void {
  const { auditQuery, noteReading, adminPolicy, monotonicMs = () => performance.now() } = deps;
  const policy = adminPolicy("audit:read");
  const route = routeIn(app, "Audit log");
  const recordFollowing = createFollowingRecorder(monotonicMs);

  route("summarizeAuditLog", "GET", "/admin/audit/summary", {
    summary: "Count logins, refusals and open calls",
    description:
      "By hour for at most 31 days, or by day for at most 366; the last 24 hours if no time is given. A login counts when its " +
      "session begins, a failure when a step of a login is refused. Counted from the log, but not proven by it. Each call leaves " +
      "one entry, `audit.summarized`.",
    policy,
    schema: {
      querystring: z.strictObject({
        from: auditTimeField.optional(),
        to: auditTimeField.optional(),
        interval: z.enum(["hour", "day"]).default("hour"),
      }),
    },
    answers: answersWith("The counts.", summary),
    codes: ["audit_unavailable"],
    handler: async (request) => {
      const { interval, to = new Date() } = request.query;
      const { from = new Date(to.getTime() - DAY_MS) } = request.query;
      await noteReading(request, {
        action: "audit.summarized",
        filter: filterText({ interval, from, to }),
      });
      const span = { from, to, interval: INTERVALS[interval] };
      const found = await auditQuery.summarizeLogins(span, request.state.call);
      if (found.from === undefined || found.to === undefined)
        throw new Error("audit-service sent a summary without its span");
      const { countedUpTo, size, refusals, openIntents: count, oldestOpenIntent } = found;
      const buckets = found.buckets.map(({ start = from, logins, failures }) => ({
        start: start.toISOString(),
        logins,
        failures,
      }));
      const openIntents = { count, oldest: oldestOpenIntent?.toISOString() ?? null };
      const [begin, end] = [found.from.toISOString(), found.to.toISOString()];
      return success(
        { from: begin, to: end, buckets, refusals, openIntents, countedUpTo, size },
        "Logins, refusals and open calls.",
      );
    },
  });

  route("followAuditLog", "GET", "/admin/audit/tail", {
    summary: "Follow the audit log",
    description:
      "Without `place`: where the logs end now, and no entries. Then repeat with `place` of the answer: each entry comes once, those " +
      "of a log in the order of their sequences, however late they were stored. At most 100 entries of each log an answer; while " +
      "`hasMore`, ask again at once, else after two seconds. A log that `place` does not name is followed from now on. `after` = " +
      "`nextAfter` in its stead follows log 0 alone. The first call of a session for a filter leaves an entry, `audit.followed`, with " +
      "the place it begins at; then one every ten minutes, and one for a place before that.",
    policy,
    schema: {
      querystring: z.strictObject({
        ...auditFilterFields,
        place: placeField,
        after: sequenceField(0).optional(),
        people: peopleField,
      }),
    },
    answers: answersWith(
      "The entries since.",
      z.strictObject({
        entries: z.array(auditEntryAnswer),
        place: textLike(
          "0:1042,1:77",
          "For the next call: a sequence in each log. Absent if `after` was read.",
        ).optional(),
        hasMore: z.boolean(),
        nextAfter: intLike(1042, "As `place`, in log 0."),
        size: intLike(1042, "Sequence of the last entry of log 0."),
        people: peopleAnswer.optional(),
      }),
    ),
    codes: ["audit_unavailable"],
    handler: async (request) => {
      const { place = [], after: afterInLog0, ...filter } = request.query;
      const after = place.length > 0 ? undefined : afterInLog0;
      assertMayNamePeople(deps.access, request, filter);
      const from = after === undefined ? place : [{ log: 0, sequence: after }];
      if (from.length > 0) {
        const { sessionId } = principalOf(request);
        const begin = after === undefined ? { place: placeText(place) } : { after };
        await recordFollowing({ sessionId, ...filter }, from, () =>
          noteReading(request, { action: "audit.followed", filter: filterText({ ...filter, ...begin }) }),
        );
      }
      const wanted = { afterSequence: after, after: place, limit: 0, ...toEntryFilter(filter) };
      const followed = await auditQuery.followEntries(wanted, request.state.call);
      const { nextAfterSequence: nextAfter, size, next, hasMore, away } = followed;
      // Its entries would be left out in silence: for good, if the answer had no place in it.
      if (away.length > 0)
        throw new DomainError("service_unavailable", `Audit logs are away: ${away.join()}`);
      const entries = followed.entries.map(toAuditEntry);
      const people = filter.people && (await peopleIn(entries, deps.users, request.state.call));
      return success(
        {
          entries,
          ...(next.length > 0 && { place: placeText(next) }),
          hasMore,
          nextAfter,
          size,
          ...(people && { people }),
        },
        "The entries since.",
      );
    },
  });
}
