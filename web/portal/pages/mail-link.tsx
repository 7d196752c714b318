import { Link, useLocation } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { GatehouseError } from "#clients/browser/gateway-calls.ts";
import { aboutPassword, useAccount, useSession } from "../../session/session.ts";
import { callApi } from "../../ui/api.ts";
import { Button } from "../../ui/button.tsx";
import { EmailField, OwnPasswordField, PasswordField } from "../../ui/field.tsx";
import { ActionForm, useAction } from "../../ui/form.tsx";
import { PageTitle } from "../../ui/frame.tsx";
import { Loading, Notice } from "../../ui/notice.tsx";
import { MAIL_LINKS, type MailLink, takeLinkToken } from "../mail-links.ts";
import { type TextKey, useText } from "../text.ts";
import { Unproven, useProven } from "../unproven.tsx";

/**
 * Which password they ask for. A click without the account's password or session uses the link up and proves nothing, so
 * that it is not offered here; whoever did not make the account has no password, and disowns it.
 */
const PASSWORD: Readonly<Record<MailLink, "none" | "new" | "own">> = {
  "verify-email": "own",
  "disown-account": "none",
  "reset-password": "new",
  "confirm-email-change": "own",
  "undo-email-change": "none",
  "undo-access-change": "none",
};
/** Whoever holds the account's session needs no password for them; the link may be of another account. */
const TAKES_SESSION: ReadonlySet<MailLink> = new Set(["verify-email", "confirm-email-change"]);

const OVER: ReadonlySet<string> = new Set(["verification_token_invalid", "reset_token_invalid"]);

const isMailLink = (name: string): name is MailLink => (MAIL_LINKS as readonly string[]).includes(name);

/** A page that a link in a mail opens. Nothing happens before its button is pressed: mail scanners open links. */
export function MailLinkPage() {
  const name = useLocation().pathname.split("/").at(-1) ?? "";
  return isMailLink(name) ? <OneLink key={name} link={name} /> : null;
}

function OneLink({ link }: { link: MailLink }) {
  const t = useText();
  const session = useSession();
  const account = useAccount();
  const [token] = useState(takeLinkToken);
  const [done, setDone] = useState<MailLink>();
  const said = (part: "title" | "lead" | "submit" | "done" | "next", of: MailLink = link) =>
    t(`mailLinks.${of}.${part}` as TextKey);

  const { state, email, isVouched, refuse } = useLinkState(link, token);
  const hasSession = account !== undefined && TAKES_SESSION.has(link) && !isVouched;
  const isOwnAddress = hasSession && email?.toLowerCase() === account.user.email.toLowerCase();
  const spare = isOwnAddress ? "none" : "spare";
  const asked = isVouched ? "none" : hasSession ? spare : PASSWORD[link];
  const use = async (which: MailLink, entered: { password?: string; newPassword?: string } = {}) => {
    const send = hasSession ? session.fetch : fetch;
    await callApi(send, `POST /auth/${which}`, { body: { token, ...entered } }).catch((error: unknown) => {
      refuse(error);
      throw aboutPassword(error);
    });
    if (account !== undefined) await session.loadAgain();
    setDone(which);
  };
  const disown = useAction(() => use("disown-account"));

  if (done !== undefined) {
    return (
      <>
        <PageTitle lead={said("next", done)}>{said("done", done)}</PageTitle>
        <Link to={account === undefined ? "/login" : "/"} className="button wide">
          {t(account === undefined ? "login.submit" : "account.profile")}
        </Link>
      </>
    );
  }
  if (token === "") {
    return <PageTitle lead={t("mailLinks.incompleteLead")}>{t("mailLinks.incomplete")}</PageTitle>;
  }
  if (state === "over") return <OverLink link={link} />;
  if (state === "checking") return <Loading />;
  return (
    <>
      <PageTitle lead={said("lead")}>{said("title")}</PageTitle>
      <div className="stack">
        {email !== undefined && (
          <p>
            <strong>{email}</strong>
          </p>
        )}
        <ActionForm
          submit={said("submit")}
          wide
          action={({ password, newPassword }) =>
            use(link, {
              ...(newPassword !== undefined && { newPassword }),
              ...(password !== undefined && password !== "" && { password }),
            })
          }
        >
          <LinkPassword kind={asked} />
        </ActionForm>
      </div>
      {link === "verify-email" && (
        <div className="links">
          <p>{t("mailLinks.disownQuestion")}</p>
          {disown.problem !== undefined && <Notice isBad>{disown.problem.message}</Notice>}
          <div>
            <Button kind="quiet" isPending={disown.isRunning} onClick={() => void disown.run()}>
              {said("submit", "disown-account")}
            </Button>
          </div>
        </div>
      )}
    </>
  );
}

/** Asks once whether the link can be used. Without an answer the page is as if it could: its use says. */
function useLinkState(link: MailLink, token: string) {
  const [state, setState] = useState<"checking" | "open" | "over">("checking");
  const [email, setEmail] = useState<string>();
  const [isVouched, setVouched] = useState(false);
  const refuse = (error: unknown): boolean => {
    const isOver = error instanceof GatehouseError && OVER.has(error.code);
    if (isOver) setState("over");
    return isOver;
  };
  useEffect(() => {
    if (token === "") return;
    // The page of the verification disowns, too.
    const body = { link: link === "disown-account" ? "verify-email" : link, token } as const;
    callApi(fetch, "POST /auth/links", { body }).then(
      (open) => {
        setEmail(open.email);
        setVouched(open.isVouched);
        setState("open");
      },
      (error: unknown) => refuse(error) || setState("open"),
    );
  }, []);
  return { state, email, isVouched, refuse };
}

/** What to do about a link that is used up or too old. */
function OverLink({ link }: { link: MailLink }) {
  const t = useText();
  const account = useAccount();
  const [sentTo, setSentTo] = useState<string>();
  const isVerification = link === "verify-email" || link === "disown-account";
  const isProven = useProven();
  return (
    <>
      <PageTitle lead={t("mailLinks.overLead")}>{t("mailLinks.over")}</PageTitle>
      {sentTo !== undefined && <Notice>{t("mailLinks.sentAgain", { email: sentTo })}</Notice>}
      {isVerification && account !== undefined && !isProven && <Unproven />}
      {isVerification && account === undefined && (
        <ActionForm
          submit={t("mailLinks.sendAgain")}
          wide
          action={async ({ email = "" }) => {
            await callApi(fetch, "POST /auth/resend-verification", { body: { email } });
            setSentTo(email);
          }}
        >
          <EmailField label={t("login.email")} />
        </ActionForm>
      )}
      {link === "reset-password" && (
        <Link to="/forgot-password" className="button wide">
          {t("mailLinks.sendAgain")}
        </Link>
      )}
      <p className="links">
        <Link to={account === undefined ? "/login" : "/"}>
          {t(account === undefined ? "login.submit" : "account.profile")}
        </Link>
      </p>
    </>
  );
}

function LinkPassword({ kind }: { kind: "none" | "new" | "own" | "spare" }) {
  const t = useText();
  if (kind === "none") return null;
  if (kind === "new") {
    return (
      <PasswordField
        name="newPassword"
        label={t("newPassword.field")}
        hint={t("password.hint")}
        autoComplete="new-password"
        autoFocus
      />
    );
  }
  return (
    <OwnPasswordField
      required={kind === "own"}
      hint={t(kind === "own" ? "mailLinks.ownPassword" : "mailLinks.sparePassword")}
      autoFocus={kind !== "spare"}
    />
  );
}
