import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { Answer } from "#clients/api/endpoint.ts";
import { useReading } from "../../session/reading.tsx";
import { Button } from "../../ui/button.tsx";
import { sinceText, visible } from "../../ui/format.ts";
import { PageTitle, Section } from "../../ui/frame.tsx";
import { Found } from "../../ui/states.tsx";
import { useLanguage } from "../../ui/text.ts";
import { LogLine } from "../audit/log-line.tsx";
import { SetUpCheck } from "../audit/set-up-check.tsx";
import { useKnownText, useText } from "../text.ts";
import { BarChart, filled, SPANS, type SpanName } from "./bar-chart.tsx";
import { PresentState, Tile } from "./present-state.tsx";
import "../audit/audit.css";
import "./overview.css";

/** Each reading is an entry of the log. */
const REFRESH_MS = 5 * 60_000;
const NAMES = Object.keys(SPANS) as SpanName[];

export function OverviewPage() {
  const t = useText();
  const [span, setSpan] = useState<SpanName>("day");
  const query = useReading({
    queryKey: ["audit", "summary", span],
    read: (call) => {
      const { interval, lengthMs } = SPANS[span];
      const to = new Date();
      const from = new Date(to.getTime() - lengthMs);
      return call("GET /admin/audit/summary", {
        query: { interval, from: from.toISOString(), to: to.toISOString() },
      });
    },
    staleTime: REFRESH_MS,
    refetchInterval: REFRESH_MS,
  });
  const names = { day: t("overview.day"), week: t("overview.week"), month: t("overview.month") };
  return (
    <>
      <PageTitle lead={t("overview.lead")}>{t("overview.title")}</PageTitle>
      <div className="stack">
        <SetUpCheck />
        <PresentState />
        <LogLine />
        <fieldset className="choices">
          <legend className="hidden">{t("overview.span")}</legend>
          {NAMES.map((name) => (
            <label key={name}>
              <input type="radio" name="span" checked={name === span} onChange={() => setSpan(name)} />
              <span>{names[name]}</span>
            </label>
          ))}
          <Button kind="quiet" size="slim" isPending={query.isFetching} onClick={() => void query.refetch()}>
            {t("audit.refresh")}
          </Button>
        </fieldset>
        <Found query={query}>{(summary) => <Figures summary={summary} span={span} />}</Found>
      </div>
    </>
  );
}

function Figures({ summary, span }: { summary: Answer<"GET /admin/audit/summary">; span: SpanName }) {
  const t = useText();
  const known = useKnownText();
  const language = useLanguage();
  const number = new Intl.NumberFormat(language);
  const buckets = filled(summary, span);
  const sum = (of: "logins" | "failures") => buckets.reduce((total, bucket) => total + bucket[of], 0);
  const [logins, failures] = [sum("logins"), sum("failures")];
  const { openIntents, refusals } = summary;
  const share = new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 1 });
  const most = Math.max(1, ...refusals.map(({ count }) => count));
  return (
    <>
      <dl className="tiles">
        <Tile name={t("overview.logins")} figure={number.format(logins)} />
        <Tile
          name={t("overview.failures")}
          figure={number.format(failures)}
          note={
            logins + failures === 0
              ? ""
              : t("overview.share", { share: share.format(failures / (logins + failures)) })
          }
        />
        <Tile
          name={t("overview.open")}
          figure={number.format(openIntents.count)}
          isBad={openIntents.count > 0}
          note={
            openIntents.oldest === null
              ? t("overview.openNone")
              : t("overview.oldest", { when: sinceText(openIntents.oldest, language) })
          }
        />
      </dl>
      <Section title={t("overview.byTime")}>
        <BarChart
          buckets={buckets}
          interval={SPANS[span].interval}
          title={t("overview.byTime")}
          series={[
            { of: "logins", name: t("overview.logins") },
            { of: "failures", name: t("overview.failures") },
          ]}
        />
      </Section>
      <Section title={t("overview.reasons")}>
        {refusals.length === 0 ? (
          <p className="muted">{t("overview.noRefusal")}</p>
        ) : (
          <table className="reasons">
            <thead className="hidden">
              <tr>
                <th scope="col">{t("audit.reason")}</th>
                <th scope="col">{t("overview.count")}</th>
                <td />
              </tr>
            </thead>
            <tbody>
              {refusals.map(({ reason, count }) => (
                <tr key={reason}>
                  <th scope="row">{visible(known("failures", reason))}</th>
                  <td className="count">{number.format(count)}</td>
                  <td className="bar">
                    <svg viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">
                      <rect className="failures" width={(100 * count) / most} height="1" />
                    </svg>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
        <p className="way">
          <Link to="/audit" search={{ action: "user.login_failed" }}>
            {t("overview.seeRefusals")}
          </Link>
        </p>
      </Section>
      <p className="small muted">{t("overview.derived")}</p>
    </>
  );
}
