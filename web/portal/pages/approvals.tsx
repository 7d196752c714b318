import { Link } from "@tanstack/react-router";
import type { OwnApproval } from "#clients/api/generated/gatehouse.ts";
import { useReading } from "../../session/reading.tsx";
import { timeText } from "../../ui/format.ts";
import { PageTitle, Section } from "../../ui/frame.tsx";
import { Found, Rows } from "../../ui/states.tsx";
import { useLanguage } from "../../ui/text.ts";
import { AskedBy, summaryOf } from "../approval-fields.tsx";
import { type TextKey, useText } from "../text.ts";

const POLL_MS = 15_000;

/** What waits for the person's yes or no, and what became of the rest. */
export function ApprovalsPage() {
  const t = useText();
  const query = useApprovals("pending");
  const past = useApprovals("past");
  return (
    <>
      <PageTitle lead={t("approvals.lead")}>{t("account.approvals")}</PageTitle>
      <Section title={t("approvals.waiting")}>
        <Found query={query}>
          {(approvals) => (
            <Rows
              rows={approvals}
              empty={t("approvals.none")}
              row={(approval) => <Asked approval={approval} />}
            />
          )}
        </Found>
      </Section>
      <Section title={t("approvals.past")} lead={t("approvals.pastLead")}>
        <Found query={past}>
          {(approvals) => (
            <Rows
              rows={approvals}
              empty={t("approvals.nonePast")}
              row={(approval) => <Asked approval={approval} />}
            />
          )}
        </Found>
      </Section>
    </>
  );
}

const useApprovals = (which: "pending" | "past") =>
  useReading({
    queryKey: ["approvals", "list", which],
    read: async (call) => (await call("GET /auth/me/approvals", { query: { which } })).approvals,
    refetchInterval: which === "pending" && POLL_MS,
  });

function Asked({ approval }: { approval: OwnApproval }) {
  const t = useText();
  const language = useLanguage();
  const { id, details, current, createdAt, expiresAt, state } = approval;
  const what = summaryOf(details, language);
  const isPending = state === "pending";
  return (
    <>
      <div className="what">
        <strong>
          <bdi className="clamped">{what}</bdi>
          {!isPending && (
            <span className={state === "used" ? "tag" : "tag bad"}>
              {t(`approvals.states.${state}` as TextKey)}
            </span>
          )}
          {isPending && !current && <span className="tag bad">{t("approvals.otherSession")}</span>}
        </strong>
        <span className="muted small">
          {t("approvals.asked", { time: timeText(createdAt, language) })}
          <AskedBy approval={approval} />.{" "}
          {isPending && t("approvals.until", { time: timeText(expiresAt, language) })}
        </span>
      </div>
      <Link
        to="/approvals/$id"
        params={{ id }}
        className="button quiet slim"
        aria-label={t(isPending && current ? "approvals.decideOn" : "approvals.lookAt", { what })}
      >
        {t(isPending && current ? "approvals.decide" : "approvals.look")}
      </Link>
    </>
  );
}
