import { Link, useParams } from "@tanstack/react-router";
import type { AuditEntry } from "#clients/api/generated/gatehouse.ts";
import { useReading } from "../../session/reading.tsx";
import { useMay } from "../../session/session.ts";
import { visible } from "../../ui/format.ts";
import { PageTitle, Section } from "../../ui/frame.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Found } from "../../ui/states.tsx";
import { useLanguage } from "../../ui/text.ts";
import { useText } from "../text.ts";
import { momentText } from "../when.tsx";
import { isUuid } from "./audit-search.ts";
import type { Checked, ProvenEntry } from "./check-log.ts";
import { EntryFacts } from "./entry-facts.tsx";
import { Outcome, peopleOf, Verbatim } from "./entry-text.tsx";
import { ProofPanel, useProvenText } from "./proof-panel.tsx";
import { useEntry } from "./use-checked.ts";
import "./audit.css";

export function EntryPage() {
  const t = useText();
  const { id: entryId } = useParams({ from: "/audit/$id" });
  const { log, entry: query } = useEntry(entryId);
  const entry = log.data?.kind === "alarm" || query.data === undefined ? undefined : shownOf(query.data);
  return (
    <>
      <p className="back">
        <Link to="/audit">{t("audit.title")}</Link>
      </p>
      <PageTitle lead={entry && <Lead entry={entry} />}>{visible(entry?.action ?? t("audit.one"))}</PageTitle>
      <Found query={log}>
        {(ofLog) => (
          <Found query={query}>
            {(checked) => (
              <>
                <ProofPanel log={ofLog} checked={checked} checkedAtMs={query.dataUpdatedAt} />
                {entry !== undefined && <Shown key={entry.id} entry={entry} />}
                {entry !== undefined && checked.kind === "proven" && (
                  <Section title={t("audit.raw")} lead={t("audit.rawLead")}>
                    <pre className="raw">
                      <Verbatim>{checked.found.leafData}</Verbatim>
                    </pre>
                  </Section>
                )}
              </>
            )}
          </Found>
        )}
      </Found>
    </>
  );
}

/** Nothing that was found to be false is shown. */
function shownOf(checked: Checked<ProvenEntry>): AuditEntry | undefined {
  if (checked.kind === "proven") return checked.found.entry;
  return checked.kind === "waiting" ? checked.entry : undefined;
}

function Lead({ entry }: { entry: AuditEntry }) {
  const t = useText();
  const language = useLanguage();
  return (
    <span className="tagged">
      <Outcome entry={entry} />
      <time dateTime={entry.occurredAt}>{momentText(entry.occurredAt, language)}</time>
      {entry.sequence !== null && (
        <span>
          {t(entry.log === 0 ? "audit.number" : "audit.numberInLog", {
            log: entry.log,
            number: new Intl.NumberFormat(language).format(entry.sequence),
          })}
        </span>
      )}
    </span>
  );
}

function Shown({ entry }: { entry: AuditEntry }) {
  const t = useText();
  const may = useMay();
  const userId = entry.actor?.userId;
  const together = useTogether(entry.requestId);
  return (
    <>
      {isUuid(entry.requestId) && <CallSection entry={entry} query={together} />}
      <Section title={t("audit.says")}>
        <EntryFacts entry={entry} people={peopleOf(together.data === undefined ? [] : [together.data])} />
        {isUuid(userId) && may("users:read") && (
          <p>
            <a href={`/console/users/${userId}`}>{t("audit.person")}</a>
          </p>
        )}
      </Section>
    </>
  );
}

/** The entries of one request, with the addresses of their people for those who may read users. */
function useTogether(requestId: string) {
  const names = useMay()("users:read") && ({ people: "true" } as const);
  return useReading({
    queryKey: ["audit", "call", requestId],
    read: (call) => call("GET /admin/audit", { query: { requestId, limit: 100, ...names } }),
    staleTime: Infinity,
    enabled: isUuid(requestId),
  });
}

/** In the order of time. Intent and outcome are proven here, too. */
function CallSection({ entry, query }: { entry: AuditEntry; query: ReturnType<typeof useTogether> }) {
  const t = useText();
  return (
    <Section title={t("audit.together")} lead={t("audit.togetherLead")}>
      <Found query={query}>
        {({ entries }) => {
          const kinds = entries.filter(({ callId }) => callId === entry.callId).map(({ kind }) => kind);
          return (
            <>
              <ol className="steps">
                {entries.toReversed().map((one) => (
                  <Step key={one.id} listed={one} opened={entry} />
                ))}
              </ol>
              {entry.kind !== "event" && kinds.includes("intent") && !kinds.includes("outcome") && (
                <Notice isBad>{t("audit.noOutcome")}</Notice>
              )}
            </>
          );
        }}
      </Found>
    </Section>
  );
}

function Step({ listed, opened }: { listed: AuditEntry; opened: AuditEntry }) {
  return listed.callId === opened.callId && listed.kind !== "event" ? (
    <ProvenStep listed={listed} opened={opened} />
  ) : (
    <StepLine entry={listed} opened={opened} />
  );
}

function ProvenStep({ listed, opened }: { listed: AuditEntry; opened: AuditEntry }) {
  const provenText = useProvenText();
  const { log, entry } = useEntry(listed.id);
  if (entry.data?.kind === "alarm") return <FalseStep />;
  if (entry.data?.kind !== "proven" || log.data?.kind !== "proven")
    return <StepLine entry={listed} opened={opened} />;
  const { found } = entry.data;
  // The list is not proven: the entry may be of another call.
  if (found.entry.callId !== opened.callId || found.entry.kind !== listed.kind) return <FalseStep />;
  return <StepLine entry={found.entry} opened={opened} proven={provenText(found, log.data.found)} />;
}

function FalseStep() {
  const t = useText();
  return (
    <li>
      <Notice isBad>{t("proof.not")}</Notice>
    </li>
  );
}

function StepLine({
  entry,
  opened,
  proven,
}: {
  entry: AuditEntry;
  opened: AuditEntry;
  /** What is proven of it. */
  proven?: string;
}) {
  const t = useText();
  const language = useLanguage();
  const isOpened = entry.id === opened.id;
  const names = { intent: t("audit.intent"), outcome: t("audit.outcomeOf"), event: t("audit.event") };
  return (
    <li aria-current={isOpened ? "step" : undefined}>
      <span className="muted small">{names[entry.kind]}</span>
      {isOpened ? (
        <strong>
          <Verbatim>{entry.action}</Verbatim>
        </strong>
      ) : (
        <Link to="/audit/$id" params={{ id: entry.id }}>
          <Verbatim>{entry.action}</Verbatim>
        </Link>
      )}
      <span className="tagged">
        {entry.kind !== "intent" && <Outcome entry={entry} />}
        {proven !== undefined && <span className="tag">{proven}</span>}
      </span>
      <time className="muted small" dateTime={entry.occurredAt}>
        {momentText(entry.occurredAt, language)}
      </time>
    </li>
  );
}
