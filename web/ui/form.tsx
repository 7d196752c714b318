import { createContext, type FormEvent, type ReactNode, useRef, useState } from "react";
import { Button } from "./button.tsx";
import { type Explained, explain } from "./explain.ts";
import { Notice } from "./notice.tsx";
import { textOf } from "./text.ts";

type Entered = Readonly<Record<string, string>>;
type Problems = Readonly<Record<string, string>>;

/** Of the form around: texts by the fields' names. */
export const FieldProblems = createContext<{ problems: Problems; forget: (name: string) => void }>({
  problems: {},
  forget: () => undefined,
});

export interface Action<Arguments extends unknown[]> {
  /** False if it failed. */
  run(...args: Arguments): Promise<Explained | undefined>;
  isRunning: boolean;
  problem: Explained | undefined;
}

/** Runs once at a time, and keeps why it failed until it runs again. */
export function useAction<Arguments extends unknown[]>(
  work: (...args: Arguments) => Promise<unknown>,
): Action<Arguments> {
  const [isRunning, setRunning] = useState(false);
  const [problem, setProblem] = useState<Explained>();
  const busy = useRef(false);
  const run = async (...args: Arguments) => {
    if (busy.current) return undefined;
    busy.current = true;
    setRunning(true);
    setProblem(undefined);
    try {
      await work(...args);
      return undefined;
    } catch (error) {
      const explained = explain(error);
      setProblem(explained);
      return explained;
    } finally {
      busy.current = false;
      setRunning(false);
    }
  };
  return { run, isRunning, problem };
}

interface ActionFormProps {
  action: (entered: Entered, form: HTMLFormElement) => Promise<unknown>;
  submit: string;
  kind?: "main" | "danger";
  wide?: boolean;
  /** After the button. */
  beside?: ReactNode;
  children?: ReactNode;
}

/** A form whose action is one call. Problems of fields stand at the fields, others above them. */
export function ActionForm({
  action,
  submit,
  kind = "main",
  wide = false,
  beside,
  children,
}: ActionFormProps) {
  const { run, isRunning, problem } = useAction(action);
  const [problems, setProblems] = useState<Problems>({});
  const forget = (name: string) => setProblems(({ [name]: _forgotten, ...others }) => others);
  const show = (form: HTMLFormElement, found: Problems) => {
    setProblems(found);
    inputsOf(form)
      .find(({ name }) => name in found)
      ?.focus();
  };
  const onSubmit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    const found = problemsOf(form);
    show(form, found);
    if (Object.keys(found).length > 0) return;
    const entered = Object.fromEntries(inputsOf(form).map(({ name, value }) => [name, value]));
    const failed = await run(entered, form);
    if (failed !== undefined) show(form, failed.fields);
  };
  const isAtField = Object.keys(problem?.fields ?? {}).some((name) => name in problems);
  return (
    <FieldProblems value={{ problems, forget }}>
      {/* Its problems are said by us, in the page's language. */}
      <form className="stack" noValidate onSubmit={(event) => void onSubmit(event)}>
        {problem !== undefined && !isAtField && <Notice isBad>{problem.message}</Notice>}
        {children}
        <div className="buttons">
          <Button type="submit" kind={kind} size={wide ? "wide" : "normal"} isPending={isRunning}>
            {submit}
          </Button>
          {beside}
        </div>
      </form>
    </FieldProblems>
  );
}

function inputsOf(form: HTMLFormElement): HTMLInputElement[] {
  return [...form.elements].filter(
    (element): element is HTMLInputElement => element instanceof HTMLInputElement && element.name !== "",
  );
}

function problemsOf(form: HTMLFormElement): Problems {
  const invalid = inputsOf(form).filter(({ validity }) => !validity.valid);
  return Object.fromEntries(invalid.map(({ name, validity }) => [name, textOf(textKey(validity))]));
}

function textKey({ valueMissing, typeMismatch }: ValidityState): string {
  if (valueMissing) return "form.required";
  return typeMismatch ? "form.email" : "form.invalid";
}
