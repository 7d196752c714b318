import { Link } from "@tanstack/react-router";
import type { ManagedUser, Session, UserDetails } from "#clients/api/generated/gatehouse.ts";
import { useReading } from "../../session/reading.tsx";
import { useMay } from "../../session/session.ts";
import { deviceOf } from "../../ui/format.ts";
import { Found } from "../../ui/states.tsx";
import { wordsOfAction } from "../audit/action-field.tsx";
import { callsOf } from "../audit/entry-rows.tsx";
import { Outcome, Verbatim } from "../audit/entry-text.tsx";
import { Fact, Panel } from "../panel.tsx";
import { Table } from "../table.tsx";
import { useKnownText, useText } from "../text.ts";
import { When } from "../when.tsx";
import { EndSession, RemovePasskey } from "./acts.tsx";

const FAILURES = 10;

/** The last failed logins, with the reasons that the person was not shown. */
export function Failures({ userId }: { userId: string }) {
  const t = useText();
  const known = useKnownText();
  const query = useReading({
    queryKey: ["users", userId, "failures"],
    read: (call) =>
      call("GET /admin/audit", { query: { action: "user.login_failed", resource: userId, limit: FAILURES } }),
  });
  return (
    <Panel title={t("history.failures")}>
      <Found query={query}>
        {({ entries }) => (
          <Table
            name={t("history.failures")}
            rows={entries}
            keyOf={({ id }) => id}
            empty={t("history.noFailures")}
            columns={[
              {
                head: t("history.why"),
                kind: "main",
                cell: ({ reason = "" }) => <strong>{known("failures", reason)}</strong>,
              },
              {
                head: t("history.from"),
                cell: ({ clientIp, userAgent }) => <Origin ip={clientIp} userAgent={userAgent} />,
              },
              { head: t("history.when"), time: ({ occurredAt }) => occurredAt },
            ]}
          />
        )}
      </Found>
    </Panel>
  );
}

/** Rows; a call may be two entries. */
const CALLS = 10;

/** What the person did last, as far as the reader may see it. */
export function Activity({ userId }: { userId: string }) {
  const t = useText();
  const query = useReading({
    queryKey: ["users", userId, "activity"],
    read: (call) => call("GET /admin/audit", { query: { actor: userId, hide: "routine", limit: 2 * CALLS } }),
  });
  return (
    <Panel title={t("history.activity")}>
      <Found query={query}>
        {({ entries }) => (
          <Table
            name={t("history.activity")}
            rows={callsOf(entries).slice(0, CALLS)}
            keyOf={({ id }) => id}
            empty={t("history.noActivity")}
            columns={[
              {
                head: t("audit.action"),
                kind: "main",
                cell: ({ action }) => <Verbatim>{wordsOfAction(action) || action}</Verbatim>,
              },
              { head: t("audit.outcome"), cell: (entry) => <Outcome entry={entry} /> },
              {
                head: t("history.from"),
                cell: ({ clientIp, userAgent }) => <Origin ip={clientIp} userAgent={userAgent} />,
              },
              { head: t("history.when"), time: ({ occurredAt }) => occurredAt },
            ]}
          />
        )}
      </Found>
      <p className="small way">
        <Link to="/audit" search={{ actor: userId }}>
          {t("user.audit")}
        </Link>
      </p>
    </Panel>
  );
}

interface Acted {
  user: ManagedUser;
  mayAct: boolean;
}

export function Sessions({ user, mayAct }: Acted) {
  const t = useText();
  const known = useKnownText();
  const deviceText = useDeviceText();
  const mayEnd = useMay()("sessions:end") && mayAct;
  const query = useReading({
    queryKey: ["users", user.id, "sessions"],
    read: (call) => call("GET /admin/users/{id}/sessions", { path: { id: user.id } }),
  });
  return (
    <Panel title={t("history.sessions")}>
      <Found query={query}>
        {({ sessions }) => (
          <Table
            name={t("history.sessions")}
            rows={sessions}
            keyOf={({ id }) => id}
            empty={t("history.noSessions")}
            columns={[
              {
                head: t("history.from"),
                kind: "main",
                cell: ({ ip, userAgent }) => <Origin ip={ip} userAgent={userAgent} />,
              },
              { head: t("history.by"), cell: ({ amr }) => amr.map((name) => known("amr", name)).join(", ") },
              { head: t("history.begun"), time: ({ createdAt }) => createdAt },
              { head: t("history.used"), time: ({ lastUsedAt }) => lastUsedAt },
              ...(mayEnd
                ? [
                    {
                      head: t("user.acts"),
                      kind: "acts" as const,
                      cell: ({ id, ip, userAgent }: Session) => (
                        <EndSession user={user} session={{ id, ip, name: deviceText(userAgent) }} />
                      ),
                    },
                  ]
                : []),
            ]}
          />
        )}
      </Found>
    </Panel>
  );
}

/** How the person gets in. */
export function SignIn({ user, details, mayAct }: Acted & { details: UserDetails }) {
  const t = useText();
  const mayRemove = useMay()("mfa:reset") && mayAct;
  const { totpSince, passkeys, recoveryCodesLeft, providers, trustedDevices } = details;
  return (
    <Panel title={t("signIn.title")}>
      <dl className="details wide">
        <Fact name={t("signIn.totp")}>
          {totpSince === null ? (
            t("signIn.off")
          ) : (
            <>
              {t("signIn.onSince")} <When time={totpSince} />
            </>
          )}
        </Fact>
        <Fact name={t("signIn.codes")}>{recoveryCodesLeft}</Fact>
        <Fact name={t("signIn.devices")}>{trustedDevices}</Fact>
        <Fact name={t("signIn.providers")}>
          {providers.length === 0
            ? t("signIn.none")
            : providers.map(({ provider, linkedAt }) => (
                <span key={provider} className="line">
                  {provider} <span className="muted small">{t("signIn.since")} </span>
                  <When time={linkedAt} />
                </span>
              ))}
        </Fact>
      </dl>
      <h3>{t("signIn.passkeys")}</h3>
      <Table
        name={t("signIn.passkeys")}
        rows={passkeys}
        keyOf={({ id }) => id}
        empty={t("signIn.noPasskeys")}
        columns={[
          { head: t("signIn.name"), kind: "main", cell: ({ name }) => <span>{name}</span> },
          { head: t("signIn.added"), time: ({ createdAt }) => createdAt },
          { head: t("signIn.used"), time: ({ lastUsedAt }) => lastUsedAt, never: t("list.never") },
          ...(mayRemove
            ? [
                {
                  head: t("user.acts"),
                  kind: "acts" as const,
                  cell: (passkey: UserDetails["passkeys"][number]) => (
                    <RemovePasskey user={user} passkey={passkey} />
                  ),
                },
              ]
            : []),
        ]}
      />
    </Panel>
  );
}

/** The others are folded. */
const SHOWN_MAILS = 3;

export function Mails({ mails }: Pick<UserDetails, "mails">) {
  const t = useText();
  const numbered = mails.map((mail, index) => ({
    ...mail,
    id: `${mail.createdAt} ${mail.template} ${index}`,
  }));
  const earlier = numbered.slice(SHOWN_MAILS);
  const earlierName = t("history.earlierMails", { count: earlier.length });
  return (
    <Panel title={t("history.mails")}>
      <MailTable name={t("history.mails")} mails={numbered.slice(0, SHOWN_MAILS)} />
      {earlier.length > 0 && (
        <details>
          <summary>{earlierName}</summary>
          <MailTable name={earlierName} mails={earlier} />
        </details>
      )}
    </Panel>
  );
}

type Mail = UserDetails["mails"][number] & { id: string };

function MailTable({ name, mails }: { name: string; mails: readonly Mail[] }) {
  const t = useText();
  const known = useKnownText();
  return (
    <Table
      name={name}
      rows={mails}
      keyOf={({ id }) => id}
      empty={t("history.noMails")}
      columns={[
        { head: t("history.mail"), kind: "main", cell: ({ template }) => known("mails", template) },
        {
          head: t("users.state"),
          cell: ({ state }) => (
            <span className={`tag ${MAIL_TAGS[state]}`}>{known("mailStates", state)}</span>
          ),
        },
        { head: t("history.when"), time: ({ createdAt }) => createdAt },
      ]}
    />
  );
}

const MAIL_TAGS = {
  sent: "quiet",
  waiting: "",
  given_up: "bad",
  withheld: "warn",
  unknown: "quiet",
} as const;

/** An address, and what somebody there called their browser. */
function Origin({ ip, userAgent }: { ip: string; userAgent: string }) {
  const deviceText = useDeviceText();
  return (
    <>
      <span className="number">{ip}</span>
      <span className="muted small" title={userAgent}>
        {deviceText(userAgent)}
      </span>
    </>
  );
}

function useDeviceText(): (userAgent: string) => string {
  const t = useText();
  return (userAgent) => {
    const { browser, system } = deviceOf(userAgent);
    return [browser || t("history.unknownBrowser"), system].filter((text) => text !== "").join(", ");
  };
}
