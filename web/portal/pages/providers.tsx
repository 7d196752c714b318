import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useSession } from "../../session/session.ts";
import { Button } from "../../ui/button.tsx";
import { Cancel, Sheet } from "../../ui/dialog.tsx";
import { OwnPasswordField } from "../../ui/field.tsx";
import { ActionForm } from "../../ui/form.tsx";
import { dateText } from "../../ui/format.ts";
import { PageTitle, Section } from "../../ui/frame.tsx";
import { Found, Rows } from "../../ui/states.tsx";
import { useLanguage } from "../../ui/text.ts";
import { listProviders } from "../provider-buttons.tsx";
import { RETURN_PATH } from "../provider-login.ts";
import { useText } from "../text.ts";
import { Unproven, useProven } from "../unproven.tsx";

interface Asked {
  provider: string;
  name: string;
  isLinked: boolean;
}

export function ProvidersPage() {
  const t = useText();
  const { call } = useSession();
  const language = useLanguage();
  const isProven = useProven();
  const queries = useQueryClient();
  const [asked, setAsked] = useState<Asked>();
  const providers = useQuery({ queryKey: ["providers"], queryFn: listProviders });
  const linked = useQuery({
    queryKey: ["identities"],
    queryFn: async () => (await call("GET /auth/me/identities")).identities,
  });
  const change = async ({ provider, isLinked }: Asked, password: string, close: () => void) => {
    const path = { provider };
    // An account without a password sends none.
    const proof = password === "" ? {} : { password };
    if (isLinked) {
      await call("DELETE /auth/me/identities/{provider}", { path, body: proof });
      await queries.invalidateQueries({ queryKey: ["identities"] });
      return close();
    }
    const returnTo = `${location.origin}${RETURN_PATH}`;
    const { url } = await call("POST /auth/me/identities/{provider}", { path, body: { ...proof, returnTo } });
    location.assign(url);
  };
  return (
    <>
      <PageTitle lead={t("providers.lead")}>{t("account.providers")}</PageTitle>
      <Section title={t("providers.list")}>
        {!isProven && <Unproven />}
        <Found query={providers}>
          {(all) => (
            <Found query={linked}>
              {(identities) => (
                <Rows
                  rows={all.map(({ name, displayName }) => ({
                    id: name,
                    displayName,
                    identity: identities.find(({ provider }) => provider === name),
                  }))}
                  empty={t("providers.none")}
                  row={({ id, displayName, identity }) => (
                    <>
                      <div className="what">
                        <strong>{displayName}</strong>
                        <span className="muted small">
                          {identity === undefined
                            ? t("providers.unlinked")
                            : t("providers.linked", {
                                date: dateText(identity.linkedAt, language),
                                email: identity.email ?? "",
                              })}
                        </span>
                      </div>
                      {(isProven || identity !== undefined) && (
                        <Button
                          kind="quiet"
                          size="slim"
                          aria-label={t(identity === undefined ? "providers.linkIt" : "providers.removeIt", {
                            provider: displayName,
                          })}
                          onClick={() =>
                            setAsked({ provider: id, name: displayName, isLinked: identity !== undefined })
                          }
                        >
                          {t(identity === undefined ? "providers.link" : "form.remove")}
                        </Button>
                      )}
                    </>
                  )}
                />
              )}
            </Found>
          )}
        </Found>
      </Section>
      <Sheet title={asked?.name ?? ""} isOpen={asked !== undefined} onClose={() => setAsked(undefined)}>
        {(close) =>
          asked !== undefined && (
            <>
              <p className="muted">{t(asked.isLinked ? "providers.removeLead" : "providers.linkLead")}</p>
              <ActionForm
                submit={t(asked.isLinked ? "form.remove" : "providers.link")}
                kind={asked.isLinked ? "danger" : "main"}
                beside={<Cancel onClick={close} />}
                action={({ password = "" }) => change(asked, password, close)}
              >
                <OwnPasswordField hint={t("providers.noPassword")} required={false} autoFocus />
              </ActionForm>
            </>
          )
        }
      </Sheet>
    </>
  );
}
