import { useEffect, useState, useSyncExternalStore } from "react";
import type { PasskeyRequestOptions } from "../../examples/typescript-client/generated/gatehouse.ts";
import { Button } from "../ui/button.tsx";
import { Sheet } from "../ui/dialog.tsx";
import { type Explained, explain } from "../ui/explain.ts";
import { CodeField, PasswordField } from "../ui/field.tsx";
import { ActionForm, useAction } from "../ui/form.tsx";
import { Loading, Notice } from "../ui/notice.tsx";
import { askPasskey, canUsePasskeys } from "./passkeys.ts";
import { type StepUpRequest, useSession } from "./session.ts";
import { useText } from "./text.ts";

/** Asks for a fresh proof while a call waits for one. */
export function StepUp() {
  const session = useSession();
  const t = useText();
  const asked = useSyncExternalStore(session.subscribe, () => session.stepUp);
  if (asked === undefined) return null;
  return (
    <Sheet title={t("stepUp.title")} onClose={asked.cancel}>
      {() => <Proof asked={asked} />}
    </Sheet>
  );
}

interface Begun {
  stepUpToken: string;
  methods: string[];
  passkey?: PasskeyRequestOptions;
}

function Proof({ asked }: { asked: StepUpRequest }) {
  const t = useText();
  const { call, client } = useSession();
  const [begun, setBegun] = useState<Begun>();
  const [problem, setProblem] = useState<Explained>();
  const { acr } = asked.demand;
  useEffect(() => {
    let isGone = false;
    call<Begun>("POST", "/auth/step-up", acr > 1 ? { acr } : {}).then(
      (answer) => isGone || setBegun(answer),
      (error: unknown) => isGone || setProblem(explain(error)),
    );
    return () => {
      isGone = true;
    };
  }, [acr, call]);
  const prove = async (proof: { password: string } | { code: string } | { passkey: object }) => {
    const { stepUpToken } = begun ?? {};
    const { accessToken } = await call<{ accessToken: string }>("POST", "/auth/step-up/verify", {
      stepUpToken,
      ...proof,
    });
    client.raise(accessToken);
    asked.proven();
  };
  const passkey = useAction(async (options: PasskeyRequestOptions) =>
    prove({ passkey: await askPasskey(options) }),
  );
  if (problem !== undefined) return <Notice isBad>{problem.message}</Notice>;
  if (begun === undefined) return <Loading />;
  const { methods } = begun;
  const cancel = (
    <Button kind="quiet" onClick={asked.cancel}>
      {t("form.cancel")}
    </Button>
  );
  return (
    <>
      <p className="muted">{t("stepUp.lead")}</p>
      {passkey.problem !== undefined && <Notice isBad>{passkey.problem.message}</Notice>}
      {begun.passkey !== undefined && canUsePasskeys() && (
        <Button
          size="wide"
          isPending={passkey.isRunning}
          onClick={() => void passkey.run(begun.passkey as PasskeyRequestOptions)}
        >
          {t("mfa.passkey")}
        </Button>
      )}
      {methods.includes("totp") || methods.includes("recovery_code") ? (
        <ActionForm
          submit={t("stepUp.submit")}
          beside={cancel}
          action={({ code = "" }) => prove({ code: code.trim() })}
        >
          <CodeField label={t("mfa.code")} hint={t("mfa.codeHint")} autoFocus />
        </ActionForm>
      ) : (
        methods.includes("password") && (
          <ActionForm
            submit={t("stepUp.submit")}
            beside={cancel}
            action={({ password = "" }) => prove({ password })}
          >
            <PasswordField
              name="password"
              label={t("password.yours")}
              autoComplete="current-password"
              autoFocus
            />
          </ActionForm>
        )
      )}
    </>
  );
}
