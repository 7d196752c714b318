import { useSyncExternalStore } from "react";
import { Button } from "../ui/button.tsx";
import { Cancel, Sheet } from "../ui/dialog.tsx";
import { CodeField, OwnPasswordField } from "../ui/field.tsx";
import { ActionForm, useAction } from "../ui/form.tsx";
import { Notice } from "../ui/notice.tsx";
import { textOf, useLanguage } from "../ui/text.ts";
import { askPasskey, canUsePasskeys } from "./passkeys.ts";
import { type StepUp as Asked, useSession } from "./session.ts";

/** Asks for a fresh proof while a call waits for one. */
export function StepUp() {
  const session = useSession();
  useLanguage();
  const asked = useSyncExternalStore(session.subscribe, () => session.stepUp);
  if (asked === undefined) return null;
  return (
    <Sheet title={textOf("stepUp.title")} onClose={asked.cancel}>
      {() => <Ways asked={asked} />}
    </Sheet>
  );
}

function Ways({ asked: { methods, passkey: options, prove, cancel } }: { asked: Asked }) {
  useLanguage();
  const passkey = useAction(async (offered: object) => prove({ passkey: await askPasskey(offered) }));
  const beside = <Cancel onClick={cancel} />;
  return (
    <>
      <p className="muted">{textOf("stepUp.lead")}</p>
      {passkey.problem !== undefined && <Notice isBad>{passkey.problem.message}</Notice>}
      {options !== undefined && canUsePasskeys() && (
        <Button size="wide" isPending={passkey.isRunning} onClick={() => void passkey.run(options)}>
          {textOf("stepUp.passkey")}
        </Button>
      )}
      {methods.includes("totp") || methods.includes("recovery_code") ? (
        <ActionForm
          submit={textOf("stepUp.submit")}
          beside={beside}
          action={({ code = "" }) => prove({ code: code.trim() })}
        >
          <CodeField label={textOf("stepUp.code")} hint={textOf("stepUp.codeHint")} autoFocus />
        </ActionForm>
      ) : (
        methods.includes("password") && (
          <ActionForm
            submit={textOf("stepUp.submit")}
            beside={beside}
            action={({ password = "" }) => prove({ password })}
          >
            <OwnPasswordField autoFocus />
          </ActionForm>
        )
      )}
    </>
  );
}
