import { useEffect, useState } from "react";
import { useAccount, useSession, useUser } from "../session/session.ts";
import { callApi } from "../ui/api.ts";
import { Button } from "../ui/button.tsx";
import { useAction } from "../ui/form.tsx";
import { Notice } from "../ui/notice.tsx";
import { useText } from "./text.ts";

/** Whether the person may add ways to log in. */
export const useProven = (): boolean => useAccount()?.credentialsProven ?? true;

/** In place of what is refused until the account is proven: why, and the mail that proves it. */
export function Unproven() {
  const t = useText();
  const { loadAgain } = useSession();
  const { email, emailVerified } = useUser();
  const [sentTo, setSentTo] = useState<string>();
  const resend = useAction(async () => {
    await callApi(fetch, "POST /auth/resend-verification", { body: { email } });
    setSentTo(email);
  });
  // The link may be opened in another tab, or on another device.
  useEffect(() => {
    const onFocus = () => void loadAgain();
    window.addEventListener("focus", onFocus);
    return () => window.removeEventListener("focus", onFocus);
  }, [loadAgain]);
  return (
    <div className="stack">
      <p className="muted">{t(emailVerified ? "unproven.verified" : "unproven.unverified", { email })}</p>
      {sentTo !== undefined && <Notice>{t("email.sent", { email: sentTo })}</Notice>}
      {resend.problem !== undefined && <Notice isBad>{resend.problem.message}</Notice>}
      <div className="buttons">
        <Button kind="quiet" isPending={resend.isRunning} onClick={() => void resend.run()}>
          {t(emailVerified ? "email.send" : "email.resend")}
        </Button>
      </div>
    </div>
  );
}
