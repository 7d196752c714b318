import { Link } from "@tanstack/react-router";
import type { PendingApproval } from "#clients/api/generated/gatehouse.ts";
import { useReading } from "../../session/reading.tsx";
import { timeText } from "../../ui/format.ts";
import { PageTitle, Section } from "../../ui/frame.tsx";
import { Found, Rows } from "../../ui/states.tsx";
import { useLanguage } from "../../ui/text.ts";
import { AskedBy, summaryOf } from "../approval-fields.tsx";
import { useText } from "../text.ts";

const POLL_MS = 15_000;

/** What waits for the person's yes or no. */
export function ApprovalsPage() {
  const t = useText();
  const query = useReading({
    queryKey: ["approvals", "list"],
    read: async (call) => (await call("GET /auth/me/approvals")).approvals,
    refetchInterval: POLL_MS,
  });
  return (
    <>
      <PageTitle lead={t("approvals.lead")}>{t("account.approvals")}</PageTitle>
      <Section title={t("approvals.waiting")}>
        <Found query={query}>
          {(approvals) => (
            <Rows
              rows={approvals}
              empty={t("approvals.none")}
              row={(approval) => <Waiting approval={approval} />}
            />
          )}
        </Found>
      </Section>
    </>
  );
}

function Waiting({ approval }: { approval: PendingApproval }) {
  const t = useText();
  const language = useLanguage();
  const { id, details, current, createdAt, expiresAt } = approval;
  const what = summaryOf(details, language);
  return (
    <>
      <div className="what">
        <strong>
          <bdi className="clamped">{what}</bdi>
          {!current && <span className="tag bad">{t("approvals.otherSession")}</span>}
        </strong>
        <span className="muted small">
          {t("approvals.asked", { time: timeText(createdAt, language) })}
          <AskedBy approval={approval} />. {t("approvals.until", { time: timeText(expiresAt, language) })}
        </span>
      </div>
      <Link
        to="/approvals/$id"
        params={{ id }}
        className="button quiet slim"
        aria-label={t(current ? "approvals.decideOn" : "approvals.lookAt", { what })}
      >
        {t(current ? "approvals.decide" : "approvals.look")}
      </Link>
    </>
  );
}
