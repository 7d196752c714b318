import { Link, useParams } from "@tanstack/react-router";
import { useState } from "react";
import type { Answer } from "#clients/api/endpoint.ts";
import type { Webhook } from "#clients/api/generated/gatehouse.ts";
import { useReading } from "../../session/reading.tsx";
import { useMay, useSession } from "../../session/session.ts";
import { Button } from "../../ui/button.tsx";
import { useAction } from "../../ui/form.tsx";
import { PageTitle } from "../../ui/frame.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Found } from "../../ui/states.tsx";
import { DoneArea } from "../act.tsx";
import { useOwner } from "../clients/client-page.tsx";
import { Copyable } from "../copyable.tsx";
import { Fact, Panel } from "../panel.tsx";
import { useKnownText, useText } from "../text.ts";
import { When } from "../when.tsx";
import { Deliveries } from "./deliveries.tsx";
import { WebhookActs } from "./webhook-acts.tsx";
import { useMayWrite, WebhookTags } from "./webhooks-page.tsx";

export function WebhookPage() {
  const t = useText();
  const { id } = useParams({ from: "/webhooks/$id" });
  const [isGone, setGone] = useState(false);
  const query = useReading({
    queryKey: ["webhooks", id],
    read: (call) => call("GET /admin/webhooks/{id}", { path: { id } }),
    enabled: !isGone,
  });
  const back = (
    <p className="back">
      <Link to="/webhooks">{t("webhooks.back")}</Link>
    </p>
  );
  if (isGone)
    return (
      <>
        <PageTitle>{t("webhooks.title")}</PageTitle>
        <div className="stack">
          <Notice>{t("deleteWebhook.done")}</Notice>
          {back}
        </div>
      </>
    );
  return (
    <DoneArea key={id}>
      {back}
      <Found query={query}>
        {({ webhook }) => <Shown webhook={webhook} onDeleted={() => setGone(true)} />}
      </Found>
    </DoneArea>
  );
}

function Shown({ webhook, onDeleted }: { webhook: Webhook; onDeleted: () => void }) {
  const t = useText();
  const may = useMay();
  const mayWrite = useMayWrite();
  const owner = useOwner(webhook.ownerId, may("users:read"));
  return (
    <>
      <PageTitle lead={<WebhookTags webhook={webhook} />}>{webhook.name}</PageTitle>
      <Trouble webhook={webhook} />
      <div className="beside">
        <div className="panels">
          {mayWrite && webhook.kind === "webhook" && <Test id={webhook.id} />}
          <Deliveries id={webhook.id} />
        </div>
        <aside className="panels">
          <Panel title={t("webhooks.facts")}>
            <Facts webhook={webhook} ownerEmail={owner?.email} />
          </Panel>
          {mayWrite && (
            <Panel title={t("user.acts")}>
              <WebhookActs webhook={webhook} ownerEmail={owner?.email} onDeleted={onDeleted} />
            </Panel>
          )}
        </aside>
      </div>
    </>
  );
}

/** Why it is paused or will be, and what to do about it. */
function Trouble({ webhook: { status, pausedReason, failingSince } }: { webhook: Webhook }) {
  const t = useText();
  const known = useKnownText();
  if (status === "active" && failingSince === null) return null;
  const reason = pausedReason ?? "asked";
  return (
    <Notice isBad={reason !== "asked" || status === "active"}>
      <strong>{status === "active" ? t("webhooks.failing") : known("pausedReasons", reason)}</strong>
      <span>{status === "active" ? t("webhooks.failingDo") : known("pausedHints", reason)}</span>
    </Notice>
  );
}

function Facts({ webhook, ownerEmail }: { webhook: Webhook; ownerEmail: string | undefined }) {
  const t = useText();
  const { id, clientId, url, types, ownerId, waiting, failingSince, formerSecretUntil } = webhook;
  return (
    <dl className="details">
      {url !== "" && (
        <Fact name={t("webhooks.url")}>
          <Copyable name={t("webhooks.url")} text={url} />
        </Fact>
      )}
      {clientId !== null && (
        <Fact name={t("webhooks.stream")}>
          <Link to="/clients/$id" params={{ id: clientId }}>
            {clientId}
          </Link>
        </Fact>
      )}
      <Fact name={t("webhooks.types")}>
        {types.map((type) => (
          <code key={type} className="line">
            {type}
          </code>
        ))}
      </Fact>
      {clientId === null && (
        <Fact name={t("clients.owner")}>
          {ownerId === null ? (
            t("clients.noOwner")
          ) : (
            <Link to="/users/$id" params={{ id: ownerId }}>
              {ownerEmail ?? ownerId}
            </Link>
          )}
        </Fact>
      )}
      <Fact name={t("webhooks.waiting")}>{waiting}</Fact>
      {failingSince !== null && (
        <Fact name={t("webhooks.failingSince")}>
          <When time={failingSince} />
        </Fact>
      )}
      {formerSecretUntil !== null && (
        <Fact name={t("webhooks.formerUntil")}>
          <When time={formerSecretUntil} />
        </Fact>
      )}
      <Fact name={t("webhooks.id")}>
        <Copyable name={t("webhooks.id")} text={id} />
      </Fact>
      <Fact name={t("clients.created")}>
        <When time={webhook.createdAt} />
      </Fact>
      <Fact name={t("clients.changed")}>
        <When time={webhook.changedAt} />
      </Fact>
    </dl>
  );
}

function Test({ id }: { id: string }) {
  const t = useText();
  const { call } = useSession();
  const [outcome, setOutcome] = useState<Answer<"POST /admin/webhooks/{id}/test">>();
  const { run, isRunning, problem } = useAction(async () => {
    setOutcome(undefined);
    setOutcome(await call("POST /admin/webhooks/{id}/test", { path: { id } }));
  });
  return (
    <Panel
      title={t("webhookTest.title")}
      beside={
        <Button kind="quiet" size="slim" isPending={isRunning} onClick={() => void run()}>
          {t("webhookTest.send")}
        </Button>
      }
    >
      <p className="muted">{t("webhookTest.lead")}</p>
      {problem !== undefined && <Notice isBad>{problem.message}</Notice>}
      {outcome !== undefined && <Outcome {...outcome} />}
    </Panel>
  );
}

function Outcome({ httpStatus, problem, durationMs }: Answer<"POST /admin/webhooks/{id}/test">) {
  const t = useText();
  const known = useKnownText();
  const values = { status: httpStatus ?? "", ms: durationMs };
  if (problem === null) return <Notice>{t("webhookTest.delivered", values)}</Notice>;
  return (
    <Notice isBad>
      <strong>{t(httpStatus === null ? "webhookTest.failed" : "webhookTest.answered", values)}</strong>
      <span>{known("deliveryProblems", problem)}</span>
    </Notice>
  );
}
