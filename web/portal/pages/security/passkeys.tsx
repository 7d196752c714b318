import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { Passkey } from "#clients/api/generated/gatehouse.ts";
import { canUsePasskeys, makePasskey, thisDevice } from "../../../session/passkeys.ts";
import { useSession } from "../../../session/session.ts";
import { Button } from "../../../ui/button.tsx";
import { Cancel, Sheet } from "../../../ui/dialog.tsx";
import { Field } from "../../../ui/field.tsx";
import { ActionForm, useAction } from "../../../ui/form.tsx";
import { sinceText } from "../../../ui/format.ts";
import { Section } from "../../../ui/frame.tsx";
import { Notice } from "../../../ui/notice.tsx";
import { Found, Rows } from "../../../ui/states.tsx";
import { useLanguage } from "../../../ui/text.ts";
import type { GivesCodes } from "../../recovery-codes.tsx";
import { useText } from "../../text.ts";
import { Unproven, useProven } from "../../unproven.tsx";

export function Passkeys({ onCodes }: GivesCodes) {
  const t = useText();
  const { call, loadAgain } = useSession();
  const language = useLanguage();
  const isProven = useProven();
  const queries = useQueryClient();
  const [renamed, setRenamed] = useState<Passkey>();
  const [removed, setRemoved] = useState<Passkey>();
  const [isAdded, setAdded] = useState(false);
  const query = useQuery({
    queryKey: ["passkeys"],
    queryFn: () => call("GET /auth/passkeys"),
  });
  const changed = () => queries.invalidateQueries({ queryKey: ["passkeys"] });
  const add = useAction(async () => {
    setAdded(false);
    const options = await call("POST /auth/passkeys/options", { body: {} });
    const response = await makePasskey(options);
    const { recoveryCodes = [] } = await call("POST /auth/passkeys", {
      body: {
        response,
        name: thisDevice(),
      },
    });
    // They are shown once, whatever becomes of the rest.
    onCodes(recoveryCodes);
    setAdded(true);
    await Promise.all([changed(), loadAgain()]);
  });
  return (
    <Section title={t("passkeys.title")} lead={t("passkeys.lead")}>
      {add.problem !== undefined && <Notice isBad>{add.problem.message}</Notice>}
      {isAdded && <Notice>{t("passkeys.added")}</Notice>}
      <Found query={query}>
        {({ passkeys }) => (
          <Rows
            rows={passkeys}
            empty={t("passkeys.none")}
            row={(passkey) => (
              <>
                <div className="what">
                  <strong>
                    <bdi>{passkey.name}</bdi>
                  </strong>
                  <span className="muted small">
                    {passkey.lastUsedAt === null
                      ? t("passkeys.unused", { when: sinceText(passkey.createdAt, language) })
                      : t("passkeys.used", { when: sinceText(passkey.lastUsedAt, language) })}
                  </span>
                </div>
                <div className="buttons">
                  <Button
                    kind="quiet"
                    size="slim"
                    aria-label={t("passkeys.renameIt", { name: passkey.name })}
                    onClick={() => setRenamed(passkey)}
                  >
                    {t("passkeys.rename")}
                  </Button>
                  <Button
                    kind="quiet"
                    size="slim"
                    aria-label={t("passkeys.removeIt", { name: passkey.name })}
                    onClick={() => setRemoved(passkey)}
                  >
                    {t("form.remove")}
                  </Button>
                </div>
              </>
            )}
          />
        )}
      </Found>
      {!canUsePasskeys() && <p className="muted small">{t("passkeys.unsupported")}</p>}
      {canUsePasskeys() && !isProven && <Unproven />}
      {canUsePasskeys() && isProven && (
        <div className="buttons">
          <Button kind="quiet" isPending={add.isRunning} onClick={() => void add.run()}>
            {t("passkeys.add")}
          </Button>
        </div>
      )}
      <Sheet
        title={t("passkeys.rename")}
        isOpen={renamed !== undefined}
        onClose={() => setRenamed(undefined)}
      >
        {(close) => (
          <ActionForm
            submit={t("form.save")}
            beside={<Cancel onClick={close} />}
            action={async ({ name = "" }) => {
              await call("PATCH /auth/passkeys/{id}", { path: { id: renamed?.id ?? "" }, body: { name } });
              await changed();
              close();
            }}
          >
            <Field
              name="name"
              label={t("passkeys.name")}
              defaultValue={renamed?.name ?? ""}
              required
              maxLength={64}
              autoFocus
            />
          </ActionForm>
        )}
      </Sheet>
      <Sheet
        title={t("passkeys.removeQuestion")}
        isOpen={removed !== undefined}
        onClose={() => setRemoved(undefined)}
      >
        {(close) => (
          <>
            <p className="muted">{t("passkeys.removeLead", { name: removed?.name ?? "" })}</p>
            <ActionForm
              submit={t("form.remove")}
              kind="danger"
              beside={<Cancel onClick={close} />}
              action={async () => {
                await call("DELETE /auth/passkeys/{id}", { path: { id: removed?.id ?? "" } });
                close();
                await Promise.all([changed(), loadAgain()]);
              }}
            />
          </>
        )}
      </Sheet>
    </Section>
  );
}
