import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { AuditEntry } from "#clients/api/generated/gatehouse.ts";
import { deviceOf, visible } from "../../ui/format.ts";
import { useLanguage } from "../../ui/text.ts";
import { useText } from "../text.ts";
import { momentText } from "../when.tsx";
import { type AuditSearch, readSearch } from "./audit-search.ts";
import { type People, placeOf, Verbatim } from "./entry-text.tsx";

/** Everything that an entry says. What the page knows of its people stands beside it. */
export function EntryFacts({ entry, people }: { entry: AuditEntry; people: People }) {
  const t = useText();
  const language = useLanguage();
  const { userId, role, sessionId, claimedEmail } = entry.actor ?? {};
  const { browser, system } = deviceOf(entry.userAgent);
  const device = [browser, system].filter(Boolean).join(", ");
  return (
    <dl className="facts">
      <Fact
        name={t("audit.who")}
        text={userId}
        note={people.get(userId ?? "") ?? ""}
        filter={{ actor: userId }}
      />
      <Fact name={t("audit.role")} text={role} />
      <Fact name={t("audit.claimed")} text={claimedEmail} note={t("audit.claimedNote")} />
      <Fact name={t("audit.session")} text={sessionId} />
      <Fact name={t("audit.action")} text={entry.action} filter={{ action: entry.action }} />
      <Fact
        name={t("audit.resource")}
        text={entry.resource}
        note={people.get(entry.resource) ?? ""}
        filter={{ resource: entry.resource }}
      />
      <Fact name={t("audit.call")} text={`${entry.method} ${entry.route}`.trim()} />
      <Fact name={t("audit.reason")} text={entry.reason} />
      <Fact name={t("audit.errorCode")} text={entry.errorCode} />
      <Fact name={t("audit.status")} text={numberText(entry.httpStatus)} />
      <Fact
        name={t("audit.took")}
        text={
          (entry.latencyUs ?? 0) > 0
            ? `${new Intl.NumberFormat(language, { maximumFractionDigits: 1 }).format((entry.latencyUs ?? 0) / 1_000)} ms`
            : ""
        }
      />
      <Fact name={t("audit.address")} text={entry.clientIp} />
      <Fact name={t("audit.device")} text={entry.userAgent} note={device === entry.userAgent ? "" : device} />
      <Fact
        name={t("audit.occurred")}
        text={entry.occurredAt}
        note={<bdi>{momentText(entry.occurredAt, language)}</bdi>}
      />
      <Fact
        name={t("audit.received")}
        text={entry.receivedAt}
        note={<bdi>{t("audit.byTheLog", { producer: visible(entry.producer) })}</bdi>}
      />
      <Fact name={t("audit.place")} text={placeOf(entry)} />
      <Fact name={t("audit.entryId")} text={entry.id} />
      <Fact name={t("audit.requestId")} text={entry.requestId} filter={{ requestId: entry.requestId }} />
      <Fact name={t("audit.callId")} text={entry.callId} />
      <Fact name={t("audit.traceId")} text={entry.traceId} />
    </dl>
  );
}

const numberText = (value: number | undefined) => (value === undefined || value === 0 ? "" : String(value));

function Fact({
  name,
  text = "",
  note = "",
  filter,
}: {
  name: string;
  text: string | undefined;
  note?: ReactNode;
  /** Leads to the entries that have the same. */
  filter?: { [name in keyof AuditSearch]?: string | undefined };
}): ReactNode {
  const t = useText();
  if (text === "") return null;
  const search = readSearch(filter ?? {});
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <Verbatim>{text}</Verbatim>
        {note !== "" && (
          <span className="muted small">{typeof note === "string" ? <Verbatim>{note}</Verbatim> : note}</span>
        )}
        {Object.keys(search).length > 0 && (
          <Link to="/audit" search={search} className="small" aria-label={t("audit.sameAs", { name })}>
            {t("audit.same")}
          </Link>
        )}
      </dd>
    </div>
  );
}
