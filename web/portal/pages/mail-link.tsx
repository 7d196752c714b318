import { Link, useLocation } from "@tanstack/react-router";
import { useState } from "react";
import { aboutPassword, useAccount, useSession } from "../../session/session.ts";
import { callApi } from "../../ui/api.ts";
import { Button } from "../../ui/button.tsx";
import { OwnPasswordField, PasswordField } from "../../ui/field.tsx";
import { ActionForm, useAction } from "../../ui/form.tsx";
import { PageTitle } from "../../ui/frame.tsx";
import { Notice } from "../../ui/notice.tsx";
import { MAIL_LINKS, type MailLink, takeLinkToken } from "../mail-links.ts";
import { type TextKey, useText } from "../text.ts";

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

  const hasSession = account !== undefined && TAKES_SESSION.has(link);
  const use = async (which: MailLink, entered: { password?: string; newPassword?: string } = {}) => {
    const send = hasSession ? session.fetch : fetch;
    await callApi(send, `POST /auth/${which}`, { body: { token, ...entered } }).catch((error: unknown) => {
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
  return (
    <>
      <PageTitle lead={said("lead")}>{said("title")}</PageTitle>
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
        <LinkPassword kind={hasSession ? "spare" : PASSWORD[link]} />
      </ActionForm>
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
