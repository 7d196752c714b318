import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { Body } from "#clients/api/endpoint.ts";
import type { Webhook } from "#clients/api/generated/gatehouse.ts";
import { useSession } from "../../session/session.ts";
import { Field } from "../../ui/field.tsx";
import { Act, useDone } from "../act.tsx";
import { OwnerField, useOwnerId } from "../clients/fields.tsx";
import { OnceSheet } from "../once-sheet.tsx";
import { useText } from "../text.ts";
import { WebhookFields, wantedOf } from "./fields.tsx";

interface Props {
  webhook: Webhook;
  ownerEmail: string | undefined;
  onDeleted: () => void;
}

export function WebhookActs({ webhook, ownerEmail, onDeleted }: Props) {
  const t = useText();
  const { call } = useSession();
  const queries = useQueryClient();
  const done = useDone();
  const path = { id: webhook.id };
  const again = () => queries.invalidateQueries({ queryKey: ["webhooks"] });
  const change = async (body: Body<"PATCH /admin/webhooks/{id}">) => {
    await call("PATCH /admin/webhooks/{id}", { path, body });
    done("changeWebhook.done");
    await again();
  };
  return (
    <>
      <div className="acts">
        {webhook.status === "paused" && (
          <Act
            name={t("changeWebhook.resume")}
            effect={t("changeWebhook.resumeEffect")}
            asksWhy={false}
            act={() => change({ status: "active" })}
          />
        )}
        {webhook.kind === "webhook" && (
          <OwnActs webhook={webhook} ownerEmail={ownerEmail} change={change} onRotated={again} />
        )}
        <Act
          name={t("changeWebhook.replay")}
          effect={t("changeWebhook.replayEffect")}
          asksWhy={false}
          act={async ({ from, log }) => {
            const body = { from: [{ log: Number(log), sequence: Number(from) }] };
            await call("POST /admin/webhooks/{id}/replay", { path, body });
            done("changeWebhook.replayDone");
            await again();
          }}
        >
          <WholeNumber
            name="from"
            label={t("changeWebhook.from")}
            hint={t("changeWebhook.fromHint")}
            min={1}
          />
          <WholeNumber
            name="log"
            label={t("changeWebhook.log")}
            hint={t("changeWebhook.logHint")}
            min={0}
            max={255}
            defaultValue={0}
          />
        </Act>
      </div>
      <div className="acts dangers">
        {webhook.status === "active" && (
          <Act
            name={t("changeWebhook.pause")}
            kind="danger"
            effect={t("changeWebhook.pauseEffect")}
            asksWhy={false}
            act={() => change({ status: "paused" })}
          />
        )}
        <Act
          name={t("deleteWebhook.name")}
          kind="danger"
          effect={t("deleteWebhook.effect")}
          typed={webhook.name}
          asksWhy={false}
          act={async () => {
            await call("DELETE /admin/webhooks/{id}", { path });
            onDeleted();
            await again();
          }}
        />
      </div>
    </>
  );
}

interface OwnActsProps extends Omit<Props, "onDeleted"> {
  change: (body: Body<"PATCH /admin/webhooks/{id}">) => Promise<void>;
  onRotated: () => Promise<unknown>;
}

/** A stream of Shared Signals is its receiver's. */
function OwnActs({ webhook, ownerEmail, change, onRotated }: OwnActsProps) {
  const t = useText();
  const ownerIdOf = useOwnerId();
  return (
    <>
      <Act
        name={t("changeWebhook.name")}
        effect={t("changeWebhook.effect")}
        submit={t("changeWebhook.submit")}
        asksWhy={false}
        act={(entered) => change(wantedOf(entered))}
      >
        <WebhookFields held={webhook} />
      </Act>
      <Act
        name={t("changeWebhook.owner")}
        effect={t("changeWebhook.ownerEffect")}
        asksWhy={false}
        act={async ({ owner = "" }) => change({ ownerId: await ownerIdOf(owner) })}
      >
        <OwnerField {...(ownerEmail !== undefined && { email: ownerEmail })} />
      </Act>
      <Rotate path={{ id: webhook.id }} onRotated={onRotated} />
    </>
  );
}

function Rotate({ path, onRotated }: { path: { id: string }; onRotated: () => Promise<unknown> }) {
  const t = useText();
  const { call } = useSession();
  const [secret, setSecret] = useState<string>();
  return (
    <>
      <Act
        name={t("webhookSecret.rotate")}
        effect={t("webhookSecret.rotateEffect")}
        submit={t("webhookSecret.rotateSubmit")}
        asksWhy={false}
        act={async ({ overlapHours }) => {
          const body = { overlapHours: Number(overlapHours) };
          const made = await call("POST /admin/webhooks/{id}/secret", { path, body });
          setSecret(made.secret);
          await onRotated();
        }}
      >
        <WholeNumber
          name="overlapHours"
          label={t("webhookSecret.overlap")}
          hint={t("webhookSecret.overlapHint")}
          min={0}
          max={168}
          defaultValue={24}
        />
      </Act>
      <OnceSheet
        isOpen={secret !== undefined}
        lead={t("webhookSecret.lead")}
        facts={[[t("webhookSecret.secret"), secret ?? ""]]}
        onClose={() => setSecret(undefined)}
      />
    </>
  );
}

const WholeNumber = (props: Omit<Parameters<typeof Field>[0], "type">) => (
  <Field type="number" inputMode="numeric" required {...props} />
);
