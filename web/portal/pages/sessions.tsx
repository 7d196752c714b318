import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useSession } from "../../session/session.ts";
import { Button } from "../../ui/button.tsx";
import { useAction } from "../../ui/form.tsx";
import { dateText, sinceText } from "../../ui/format.ts";
import { PageTitle, Section } from "../../ui/frame.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Found, Rows } from "../../ui/states.tsx";
import { useLanguage } from "../../ui/text.ts";
import { useDeviceText } from "../device-text.ts";
import { useText } from "../text.ts";

export function SessionsPage() {
  const t = useText();
  const { call, logout } = useSession();
  const language = useLanguage();
  const deviceText = useDeviceText();
  const queries = useQueryClient();
  const [ended, setEnded] = useState<"own" | "stranger" | "others">();
  const query = useQuery({ queryKey: ["sessions"], queryFn: () => call("GET /auth/sessions") });
  const reload = () => queries.invalidateQueries({ queryKey: ["sessions"] });
  const end = useAction(async (id: string, whose: "own" | "stranger") => {
    await call("DELETE /auth/sessions/{id}", { path: { id } });
    setEnded(whose);
    await reload();
  });
  const endOthers = useAction(async () => {
    await logout("others");
    setEnded("others");
    await reload();
  });
  const forget = useAction(async (id: string) => {
    await call("DELETE /auth/trusted-devices/{id}", { path: { id } });
    await reload();
  });
  const problem = end.problem ?? endOthers.problem ?? forget.problem;
  return (
    <>
      <PageTitle lead={t("sessions.lead")}>{t("account.sessions")}</PageTitle>
      <Section title={t("sessions.live")}>
        {problem !== undefined && <Notice isBad>{problem.message}</Notice>}
        {ended !== undefined && (
          <Notice>
            <strong>{t(ended === "others" ? "sessions.othersEnded" : "sessions.ended")}</strong>
            {ended === "stranger" && (
              <span>
                {t("sessions.endedLead")} <Link to="/security">{t("account.security")}</Link>
              </span>
            )}
          </Notice>
        )}
        <Found query={query}>
          {({ sessions }) => (
            <>
              <Rows
                rows={[...sessions].sort((one, other) => Number(other.current) - Number(one.current))}
                empty={t("sessions.none")}
                row={(session) => (
                  <>
                    <div className="what">
                      <strong>
                        <bdi>{deviceText(session.userAgent)}</bdi>
                        {session.current && <span className="tag">{t("sessions.current")}</span>}
                      </strong>
                      <span className="muted small">
                        {t("sessions.used", {
                          when: sinceText(session.lastUsedAt, language),
                          ip: session.ip,
                        })}
                      </span>
                    </div>
                    {!session.current && (
                      <div className="buttons">
                        {(["own", "stranger"] as const).map((whose) => (
                          <Button
                            key={whose}
                            kind="quiet"
                            size="slim"
                            isPending={end.isRunning}
                            aria-label={t(whose === "own" ? "sessions.logOutIt" : "sessions.endIt", {
                              device: deviceText(session.userAgent),
                              ip: session.ip,
                            })}
                            onClick={() => void end.run(session.id, whose)}
                          >
                            {t(whose === "own" ? "sessions.logOut" : "sessions.end")}
                          </Button>
                        ))}
                      </div>
                    )}
                  </>
                )}
              />
              {sessions.length > 1 && (
                <div className="buttons">
                  <Button kind="quiet" isPending={endOthers.isRunning} onClick={() => void endOthers.run()}>
                    {t("sessions.endOthers")}
                  </Button>
                </div>
              )}
            </>
          )}
        </Found>
      </Section>
      {query.data !== undefined && query.data.trustedDevices.length > 0 && (
        <Section title={t("trusted.title")} lead={t("trusted.lead")}>
          <Rows
            rows={query.data.trustedDevices}
            empty=""
            row={(device) => (
              <>
                <div className="what">
                  <strong>
                    <bdi>{deviceText(device.userAgent)}</bdi>
                  </strong>
                  <span className="muted small">
                    {t("trusted.until", { date: dateText(device.expiresAt, language) })}
                  </span>
                </div>
                <Button
                  kind="quiet"
                  size="slim"
                  isPending={forget.isRunning}
                  aria-label={t("trusted.removeIt", { device: deviceText(device.userAgent) })}
                  onClick={() => void forget.run(device.id)}
                >
                  {t("form.remove")}
                </Button>
              </>
            )}
          />
        </Section>
      )}
    </>
  );
}
