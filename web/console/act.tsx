import { type ReactNode, useState } from "react";
import { Button } from "../ui/button.tsx";
import { Sheet } from "../ui/dialog.tsx";
import { Field } from "../ui/field.tsx";
import { ActionForm } from "../ui/form.tsx";
import { useText } from "./text.ts";

interface Props {
  /** Labels the button and the dialog. */
  name: string;
  /** Of the button for screen readers, where several have the same name. */
  label?: string;
  /** What will happen. */
  effect: ReactNode;
  submit?: string;
  kind?: "main" | "danger";
  /** Must be typed before it happens. */
  typed?: string;
  /** Further fields. */
  children?: ReactNode;
  act: (entered: Readonly<Record<string, string>>, form: HTMLFormElement) => Promise<unknown>;
}

/** Something that a person does to an account: says what it does, and asks why. */
export function Act({
  name,
  label = name,
  effect,
  submit = name,
  kind = "main",
  typed,
  children,
  act,
}: Props) {
  const t = useText();
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button
        kind={kind === "danger" ? "danger" : "quiet"}
        size="slim"
        aria-label={label}
        onClick={() => setOpen(true)}
      >
        {name}
      </Button>
      <Sheet title={name} isOpen={isOpen} onClose={() => setOpen(false)}>
        {(close) => (
          <>
            <p>{effect}</p>
            <ActionForm
              submit={submit}
              kind={kind}
              action={async (entered, form) => {
                await act(entered, form);
                close();
              }}
              beside={
                <Button kind="quiet" onClick={close}>
                  {t("form.cancel")}
                </Button>
              }
            >
              {children}
              <Field
                name="reason"
                label={t("act.reason")}
                hint={t("act.reasonHint")}
                required
                maxLength={120}
                autoComplete="off"
              />
              {typed !== undefined && (
                <Field
                  name="typed"
                  label={t("act.typed", { typed })}
                  required
                  pattern={patternOf(typed)}
                  autoComplete="off"
                  spellCheck={false}
                  autoCapitalize="none"
                />
              )}
            </ActionForm>
          </>
        )}
      </Sheet>
    </>
  );
}

/** Matches this text alone. Spaces at its ends are not typed. */
const patternOf = (text: string) => `\\s*${text.trim().replace(/[$()*+./?[\\\]^{|}]/g, "\\$&")}\\s*`;
