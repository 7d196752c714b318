import { lazy, Suspense, useState } from "react";
import type {
  CompletedLogin,
  MfaEnrollmentRequired,
  MfaRequired,
  PasskeyRequestOptions,
} from "#clients/api/generated/gatehouse.ts";
import { askPasskey, canUsePasskeys, makePasskey, thisDevice } from "../session/passkeys.ts";
import { useSession } from "../session/session.ts";
import { Button } from "../ui/button.tsx";
import { CodeField, PasswordField } from "../ui/field.tsx";
import { ActionForm, useAction } from "../ui/form.tsx";
import { PageTitle } from "../ui/frame.tsx";
import { Loading, Notice } from "../ui/notice.tsx";
import type { LoginAnswer } from "./login-answer.tsx";
import { RecoveryCodes } from "./recovery-codes.tsx";
import { useText } from "./text.ts";
import type { TotpSetUp } from "./totp-secret.tsx";

/** Few logins need its drawing of QR codes. */
const TotpSecret = lazy(() =>
  import("./totp-secret.tsx").then(({ TotpSecret: secret }) => ({ default: secret })),
);

interface StepProps<Step> {
  step: Step;
  onAnswer: (answer: LoginAnswer) => Promise<void>;
  onCancel: () => void;
}

/** What a login asks for after the password: a second factor, a new password, or to set up a second factor. */
export function LoginStep({ step, ...rest }: StepProps<LoginAnswer>) {
  if ("requireMfa" in step) return <SecondFactor step={step} {...rest} />;
  if ("requirePasswordChange" in step) return <NewPassword step={step} {...rest} />;
  if ("requireMfaEnrollment" in step) return <Enrollment step={step} {...rest} />;
  return null;
}

function Cancel({ onCancel }: { onCancel: () => void }) {
  const t = useText();
  return (
    <p className="links">
      <button type="button" className="plain" onClick={onCancel}>
        {t("login.startAgain")}
      </button>
    </p>
  );
}

function SecondFactor({ step, onAnswer, onCancel }: StepProps<MfaRequired>) {
  const t = useText();
  const { step: send } = useSession();
  const { tempToken, methods, passkey, trustDeviceDays } = step;
  const [trustDevice, setTrust] = useState(false);
  const verify = async (proof: { code: string } | { passkey: Awaited<ReturnType<typeof askPasskey>> }) =>
    onAnswer(
      await send("POST /auth/mfa/verify", {
        body: { tempToken, ...proof, ...(trustDevice && { trustDevice }) },
      }),
    );
  const byPasskey = useAction(async (options: PasskeyRequestOptions) =>
    verify({ passkey: await askPasskey(options) }),
  );
  const hasCode = methods.includes("totp") || methods.includes("recovery_code");
  const canPasskey = passkey !== undefined && canUsePasskeys();
  return (
    <>
      <PageTitle lead={t(methods.includes("totp") ? "mfa.lead" : "mfa.leadWithoutApp")}>
        {t("mfa.title")}
      </PageTitle>
      <div className="stack">
        {byPasskey.problem !== undefined && <Notice isBad>{byPasskey.problem.message}</Notice>}
        {canPasskey && (
          <Button size="wide" isPending={byPasskey.isRunning} onClick={() => void byPasskey.run(passkey)}>
            {t("stepUp.passkey")}
          </Button>
        )}
        {canPasskey && hasCode && <div className="or">{t("login.or")}</div>}
        {hasCode && (
          <ActionForm submit={t("mfa.submit")} wide action={({ code = "" }) => verify({ code: code.trim() })}>
            <CodeField label={t("stepUp.code")} hint={t("stepUp.codeHint")} autoFocus={!canPasskey} />
          </ActionForm>
        )}
        {trustDeviceDays !== undefined && (
          <label className="check">
            <input
              type="checkbox"
              checked={trustDevice}
              onChange={(event) => setTrust(event.target.checked)}
            />
            <span>{t("mfa.trust", { count: trustDeviceDays })}</span>
          </label>
        )}
      </div>
      <Cancel onCancel={onCancel} />
    </>
  );
}

function NewPassword({ step, onAnswer, onCancel }: StepProps<{ tempToken: string }>) {
  const t = useText();
  const { step: send } = useSession();
  const { tempToken } = step;
  return (
    <>
      <PageTitle lead={t("newPassword.lead")}>{t("newPassword.title")}</PageTitle>
      <ActionForm
        submit={t("newPassword.submit")}
        wide
        action={async ({ newPassword = "" }) =>
          onAnswer(await send("POST /auth/login/change-password", { body: { tempToken, newPassword } }))
        }
      >
        <PasswordField
          name="newPassword"
          label={t("newPassword.field")}
          hint={t("password.hint")}
          autoComplete="new-password"
        />
      </ActionForm>
      <Cancel onCancel={onCancel} />
    </>
  );
}

type Enrolled = Pick<CompletedLogin, "user"> & { recoveryCodes?: string[] };

function Enrollment({ step: { tempToken, methods }, onAnswer, onCancel }: StepProps<MfaEnrollmentRequired>) {
  const t = useText();
  const { step: send } = useSession();
  const [setUp, setSetUp] = useState<TotpSetUp>();
  const [done, setDone] = useState<Enrolled>();
  /** With the `tempToken` of a login the first second factor completes it. */
  const finish = (answer: Enrolled | { user?: never; recoveryCodes?: string[] }) => {
    if (answer.user !== undefined) setDone(answer);
  };
  const begin = useAction(async () => setSetUp(await send("POST /auth/mfa/setup", { body: { tempToken } })));
  const passkey = useAction(async () => {
    const options = await send("POST /auth/passkeys/options", { body: { tempToken } });
    const response = await makePasskey(options);
    finish(await send("POST /auth/passkeys", { body: { tempToken, response, name: thisDevice() } }));
  });
  const goOn = useAction(onAnswer);
  const problem = begin.problem ?? passkey.problem;
  if (done !== undefined) {
    return (
      <>
        <PageTitle lead={t("recovery.lead")}>{t("recovery.title")}</PageTitle>
        <div className="stack">
          <RecoveryCodes codes={done.recoveryCodes ?? []} onDone={() => void goOn.run(done)} />
          {goOn.problem !== undefined && <Notice isBad>{goOn.problem.message}</Notice>}
        </div>
      </>
    );
  }
  return (
    <>
      <PageTitle lead={t("enroll.lead")}>{t("enroll.title")}</PageTitle>
      <div className="stack">
        {problem !== undefined && <Notice isBad>{problem.message}</Notice>}
        {setUp === undefined ? (
          <>
            {canUsePasskeys() && methods.includes("passkey") && (
              <Button size="wide" isPending={passkey.isRunning} onClick={() => void passkey.run()}>
                {t("enroll.passkey")}
              </Button>
            )}
            <Button kind="quiet" size="wide" isPending={begin.isRunning} onClick={() => void begin.run()}>
              {t("enroll.totp")}
            </Button>
          </>
        ) : (
          <>
            <Suspense fallback={<Loading />}>
              <TotpSecret setUp={setUp} />
            </Suspense>
            <ActionForm
              submit={t("totp.confirm")}
              wide
              action={async ({ code = "" }) =>
                finish(await send("POST /auth/mfa/enable", { body: { tempToken, code: code.trim() } }))
              }
            >
              <CodeField label={t("totp.code")} hint={t("totp.codeHint")} autoFocus />
            </ActionForm>
          </>
        )}
      </div>
      <Cancel onCancel={onCancel} />
    </>
  );
}
