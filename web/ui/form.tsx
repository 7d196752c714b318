import { createContext, type FormEvent, type ReactNode, useRef, useState } from "react";
import { Button } from "./button.tsx";
import { type Explained, explain, problemKey } from "./explain.ts";
import { Notice } from "./notice.tsx";
import { textOf, useLanguage } from "./text.ts";

type Entered = Readonly<Record<string, string>>;
/** By the fields' names. Functions, so that a text is in the language that the page has by then. */
type Problems = Readonly<Record<string, () => string>>;

/** Belongs to the form around. */
export const FieldProblems = createContext<{
  problems: Problems;
  forget: (name: string) => void;
  /** Says a problem before anything is sent. @param key of a text. */
  warn?: (name: string, key: string) => void;
  /** The field of the last warning, which nobody has asked for by sending. */
  warned?: string | undefined;
}>({ problems: {}, forget: () => undefined });

interface Failure {
  error: unknown;
}

export interface Action<Arguments extends unknown[]> {
  /** @returns why it failed; undefined after a success, and while an earlier run lasts. */
  run(...args: Arguments): Promise<Failure | undefined>;
  isRunning: boolean;
  problem: Explained | undefined;
}

/** Runs once at a time, and keeps why it failed until it runs again. */
export function useAction<Arguments extends unknown[]>(
  work: (...args: Arguments) => Promise<unknown>,
): Action<Arguments> {
  const [isRunning, setRunning] = useState(false);
  const [failure, setFailure] = useState<Failure>();
  useLanguage();
  const busy = useRef(false);
  const run = async (...args: Arguments) => {
    if (busy.current) return undefined;
    busy.current = true;
    setRunning(true);
    setFailure(undefined);
    try {
      await work(...args);
      return undefined;
    } catch (error) {
      setFailure({ error });
      return { error };
    } finally {
      busy.current = false;
      setRunning(false);
    }
  };
  return { run, isRunning, problem: failure && explain(failure.error) };
}

interface ActionFormProps {
  action: (entered: Entered, form: HTMLFormElement) => Promise<unknown>;
  submit: string;
  kind?: "main" | "danger";
  wide?: boolean;
  /** Shown after the button. */
  beside?: ReactNode;
  /** Below a problem that is of no field: what to do about it. */
  help?: (code: string) => ReactNode;
  children?: ReactNode;
}

/** A form whose action is one call. Problems of fields stand at the fields, others above them. */
export function ActionForm({
  action,
  submit,
  kind = "main",
  wide = false,
  beside,
  help,
  children,
}: ActionFormProps) {
  const { run, isRunning, problem } = useAction(action);
  const [isAtField, setAtField] = useState(false);
  const [problems, setProblems] = useState<Problems>({});
  const [warned, setWarned] = useState<string>();
  const forget = (name: string) => setProblems(({ [name]: _forgotten, ...others }) => others);
  const warn = (name: string, key: string) => {
    setProblems((former) => ({ ...former, [name]: () => textOf(key) }));
    setWarned(name);
  };
  const show = (form: HTMLFormElement, found: Problems) => {
    const inputs = inputsOf(form).filter(({ name }) => name in found);
    setProblems(Object.fromEntries(inputs.map(({ name }) => [name, found[name] ?? (() => "")])));
    setAtField(inputs.length > 0);
    setWarned(undefined);
    inputs[0]?.focus();
  };
  const onSubmit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    const found = problemsOf(form);
    show(form, found);
    if (Object.keys(found).length > 0) return;
    const entered = Object.fromEntries(
      [...new FormData(form)].filter((entry): entry is [string, string] => typeof entry[1] === "string"),
    );
    const failed = await run(entered, form);
    if (failed !== undefined) show(form, refusedFields(failed));
  };
  return (
    <FieldProblems value={{ problems, forget, warn, warned }}>
      {/* Its problems are said by us, in the page's language. */}
      <form className="stack" noValidate onSubmit={(event) => void onSubmit(event)}>
        {problem !== undefined && !isAtField && (
          <Notice isBad>
            <span>{problem.message}</span>
            {help?.(problem.code)}
          </Notice>
        )}
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

type Entry = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

function inputsOf(form: HTMLFormElement): Entry[] {
  const kinds = [HTMLInputElement, HTMLSelectElement, HTMLTextAreaElement];
  return [...form.elements].filter(
    (element): element is Entry =>
      kinds.some((kind) => element instanceof kind) && (element as Entry).name !== "",
  );
}

const BEYOND_ASCII = /[^ -~].*@./;

function problemsOf(form: HTMLFormElement): Problems {
  const invalid = inputsOf(form).filter(
    // Browsers take no letters beyond ASCII before the `@`. Whether they can be had here, the service says.
    ({ value, validity }) => !validity.valid && !(validity.typeMismatch && BEYOND_ASCII.test(value)),
  );
  return Object.fromEntries(
    invalid.map((entry) => {
      const key = textKey(entry);
      return [entry.name, () => textOf(key)];
    }),
  );
}

function refusedFields({ error }: Failure): Problems {
  const names = Object.keys(explain(error).fields);
  return Object.fromEntries(names.map((name) => [name, () => explain(error).fields[name] ?? ""]));
}

function textKey({ name, validity, validationMessage }: Entry): string {
  if (validity.valueMissing) return "form.required";
  // Of a field that checks itself: browsers do not show it.
  if (validity.customError) return validationMessage;
  if (validity.tooShort) return "errors.password_too_short";
  return validity.typeMismatch ? "form.email" : problemKey(name);
}
