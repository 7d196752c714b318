import {
  createContext,
  type ReactNode,
  type SyntheticEvent,
  useContext,
  useEffect,
  useRef,
  useState,
} from "react";
import { Button } from "../ui/button.tsx";
import { Cancel, Sheet } from "../ui/dialog.tsx";
import { Field } from "../ui/field.tsx";
import { ActionForm, FieldProblems } from "../ui/form.tsx";
import { Notice } from "../ui/notice.tsx";
import type { Values } from "../ui/text.ts";
import { reasonProblem } from "./reason.ts";
import { type TextKey, useText } from "./text.ts";

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
  /** False where the API takes no reason. */
  asksWhy?: boolean;
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
  asksWhy = true,
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
              beside={<Cancel onClick={close} />}
            >
              {children}
              {asksWhy && <ReasonField />}
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

/** Asked for whatever the audit log has to explain. */
export function ReasonField() {
  const t = useText();
  const { warn } = useContext(FieldProblems);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const check = ({ currentTarget: field, type }: SyntheticEvent<HTMLInputElement>) => {
    const problem = reasonProblem(field.value);
    field.setCustomValidity(problem);
    clearTimeout(timer.current);
    const pauseMs = type === "blur" ? 0 : PAUSE_MS;
    if (problem !== "") timer.current = setTimeout(() => warn?.("reason", problem), pauseMs);
  };
  return (
    <Field
      name="reason"
      label={t("act.reason")}
      hint={t("act.reasonHint")}
      required
      autoComplete="off"
      onChange={check}
      // Whoever only passes by has made no mistake.
      onBlur={(event) => event.currentTarget.value !== "" && check(event)}
    />
  );
}

/** After the last key, before a problem is said. */
const PAUSE_MS = 600;

/** Matches this text alone. Spaces at its ends are not typed. */
const patternOf = (text: string) => `\\s*${text.trim().replace(/[$()*+./?[\\\]^{|}]/g, "\\$&")}\\s*`;

type Say = (key: TextKey, values?: Values) => void;

const Done = createContext<Say>(() => undefined);

/** Says above the page what an act has done. */
export function DoneArea({ children }: { children: ReactNode }) {
  const t = useText();
  const [said, setSaid] = useState<Parameters<Say>>();
  return (
    <Done value={(...text) => setSaid(text)}>
      <div className="done" role="status">
        {said !== undefined && <Notice>{t(...said)}</Notice>}
      </div>
      {children}
    </Done>
  );
}

export const useDone = () => useContext(Done);
