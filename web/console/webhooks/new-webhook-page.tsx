import { useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useSession } from "../../session/session.ts";
import { ActionForm } from "../../ui/form.tsx";
import { PageTitle } from "../../ui/frame.tsx";
import { OnceSheet } from "../once-sheet.tsx";
import { useText } from "../text.ts";
import { WebhookFields, wantedOf } from "./fields.tsx";

export function NewWebhookPage() {
  const t = useText();
  const { call } = useSession();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [made, setMade] = useState<{ id: string; secret: string }>();
  return (
    <>
      <p className="back">
        <Link to="/webhooks">{t("webhooks.back")}</Link>
      </p>
      <PageTitle lead={t("newWebhook.lead")}>{t("newWebhook.title")}</PageTitle>
      <div className="narrow">
        <ActionForm
          submit={t("newWebhook.submit")}
          action={async (entered) => {
            const { webhook, secret } = await call("POST /admin/webhooks", { body: wantedOf(entered) });
            setMade({ id: webhook.id, secret });
            await queries.invalidateQueries({ queryKey: ["webhooks"] });
          }}
        >
          <WebhookFields />
        </ActionForm>
      </div>
      <OnceSheet
        isOpen={made !== undefined}
        lead={t("webhookSecret.lead")}
        facts={[[t("webhookSecret.secret"), made?.secret ?? ""]]}
        onClose={() => made && void navigate({ to: "/webhooks/$id", params: { id: made.id } })}
      />
    </>
  );
}
