import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import type { Approval, PasskeyRequestOptions } from "#clients/api/generated/gatehouse.ts";
import { askPasskey, canUsePasskeys } from "../../session/passkeys.ts";
import { useReading } from "../../session/reading.tsx";
import { useSession } from "../../session/session.ts";
import { Button } from "../../ui/button.tsx";
import { CodeField } from "../../ui/field.tsx";
import { ActionForm, useAction } from "../../ui/form.tsx";
import { timeText, visible } from "../../ui/format.ts";
import { PageTitle } from "../../ui/frame.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Found } from "../../ui/states.tsx";
import { useLanguage } from "../../ui/text.ts";
import { AskedBy, fieldsOf, useFieldNames } from "../approval-fields.tsx";
import { findReturn } from "../next-page.ts";
import { type TextKey, useText } from "../text.ts";

const POLL_MS = 10_000;

/** One transaction that an application asks the person to approve. */
export function ApprovalPage() {
  const t = useText();
  const { id } = useParams({ from: "/in/approvals/$id" });
  const { return_to: to } = useSearch({ from: "/in/approvals/$id" });
  const query = useReading({
    queryKey: ["approvals", id],
    read: async (call) => (await call("GET /auth/me/approvals/{id}", { path: { id } })).approval,
    // It may end, or be used, while it is shown.
    refetchInterval: ({ state: { data } }) => (data?.state === "pending" ? POLL_MS : false),
  });
  return (
    <>
      <PageTitle lead={t("approval.lead")}>{t("approval.title")}</PageTitle>
      <Found query={query}>
        {(approval) => (
          <div className="stack">
            <Facts approval={approval} />
            {approval.state === "pending" ? (
              <Decision approval={approval} to={to} />
            ) : (
              <Outcome of={approval} />
            )}
            <WayBack to={to} />
          </div>
        )}
      </Found>
    </>
  );
}

/** What is approved: as a person reads it, and as the application sent it. */
function Facts({ approval }: { approval: Approval }) {
  const t = useText();
  const language = useLanguage();
  const fields = fieldsOf(approval.details, language);
  const names = useFieldNames()(fields.map(({ pointer }) => pointer));
  return (
    <dl className="facts">
      {fields.map(({ pointer, sent, money }, index) => (
        <div key={pointer}>
          <dt>{names[index]}</dt>
          <dd>
            <strong>{money ?? sent}</strong>
            {money !== undefined && (
              <span className="muted small beside-value">{t("approval.sent", { sent })}</span>
            )}
          </dd>
        </div>
      ))}
      <div>
        <dt>{t("approval.call")}</dt>
        <dd>{visible(`${approval.method} ${approval.route}`)}</dd>
      </div>
      <div>
        <dt>{t("approval.asked")}</dt>
        <dd>
          {timeText(approval.createdAt, language)}
          <AskedBy approval={approval} />
        </dd>
      </div>
      <div>
        <dt>{t("approval.until")}</dt>
        <dd>{timeText(approval.expiresAt, language)}</dd>
      </div>
    </dl>
  );
}

function Decision({ approval, to }: { approval: Approval; to: string | undefined }) {
  const t = useText();
  const { call } = useSession();
  const queries = useQueryClient();
  const { id, methods, passkey, current } = approval;
  const reload = () => queries.invalidateQueries({ queryKey: ["approvals"] });
  const give = async (proof: { code: string } | { passkey: Awaited<ReturnType<typeof askPasskey>> }) => {
    // A wrong answer may have been the last one.
    await call("POST /auth/approvals/verify", { body: { approvalId: id, ...proof } }).finally(reload);
    const target = await findReturn(to);
    if (target !== undefined) location.assign(target.url);
  };
  const byPasskey = useAction(async (options: PasskeyRequestOptions) =>
    give({ passkey: await askPasskey(options) }),
  );
  const refuse = useAction(async () => {
    await call("POST /auth/me/approvals/{id}/refuse", { path: { id } }).finally(reload);
  });
  const problem = byPasskey.problem ?? refuse.problem;
  const hasCode = methods.includes("totp") || methods.includes("recovery_code");
  return (
    <>
      {problem !== undefined && <Notice isBad>{problem.message}</Notice>}
      {!current && (
        <Notice isBad>
          <strong>{t("approval.stranger")}</strong>
          <span>
            {t("approval.strangerLead")} <Link to="/sessions">{t("account.sessions")}</Link>
          </span>
        </Notice>
      )}
      {current && methods.length === 0 && <Notice isBad>{t("approval.noWay")}</Notice>}
      {passkey !== undefined && canUsePasskeys() && (
        <Button size="wide" isPending={byPasskey.isRunning} onClick={() => void byPasskey.run(passkey)}>
          {t("approval.passkey")}
        </Button>
      )}
      {hasCode && (
        <ActionForm
          submit={t("approval.submit")}
          wide
          action={({ code = "" }) => give({ code: code.trim() })}
        >
          <CodeField label={t("stepUp.code")} hint={t("stepUp.codeHint")} autoFocus={passkey === undefined} />
        </ActionForm>
      )}
      <Button kind="quiet" size="wide" isPending={refuse.isRunning} onClick={() => void refuse.run()}>
        {t("approval.refuse")}
      </Button>
    </>
  );
}

function Outcome({ of: { state } }: { of: Approval }) {
  const t = useText();
  return <Notice isBad={state === "expired"}>{t(`approval.states.${state}` as TextKey)}</Notice>;
}

function WayBack({ to }: { to: string | undefined }) {
  const t = useText();
  const { data } = useQuery({
    queryKey: ["return-to", to],
    queryFn: async () => (await findReturn(to)) ?? null,
    enabled: to !== undefined,
  });
  if (data === undefined || data === null) return null;
  return (
    <p className="links">
      <a href={data.url}>{t("approval.back", { name: data.name })}</a>
    </p>
  );
}
