import {
  type InputHTMLAttributes,
  type SelectHTMLAttributes,
  type TextareaHTMLAttributes,
  useContext,
  useId,
  useState,
} from "react";
import { FieldProblems } from "./form.tsx";
import { textOf, useLanguage } from "./text.ts";

interface FieldProps extends Omit<InputHTMLAttributes<HTMLInputElement>, "id"> {
  name: string;
  label: string;
  hint?: string;
}

/** A line of text with its label, hint and problem. */
export function Field({ label, hint, ...props }: FieldProps) {
  const { id, described } = useField(props.name, hint);
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <input {...props} {...described} />
      <Below id={id} name={props.name} hint={hint} />
    </div>
  );
}

export function useField(name: string, hint: string | undefined) {
  const id = useId();
  const { problems, forget } = useContext(FieldProblems);
  const problem = problems[name];
  const texts = [hint !== undefined && `${id}-hint`, problem !== undefined && `${id}-problem`].filter(
    Boolean,
  );
  const described = {
    id,
    onInput: () => forget(name),
    ...(problem !== undefined && { "aria-invalid": true }),
    ...(texts.length > 0 && { "aria-describedby": texts.join(" ") }),
  };
  return { id, described };
}

export function Below({ id, name, hint }: { id: string; name: string; hint: string | undefined }) {
  useLanguage();
  const { problems, warned } = useContext(FieldProblems);
  const problem = problems[name]?.();
  return (
    <>
      {hint !== undefined && (
        <p id={`${id}-hint`} className="hint">
          {hint}
        </p>
      )}
      {problem !== undefined && (
        <p id={`${id}-problem`} className="wrong" role={warned === name ? "alert" : undefined}>
          {problem}
        </p>
      )}
    </>
  );
}

/** One of a few. @param options value and text. */
export function SelectField({
  label,
  hint,
  options,
  ...props
}: Omit<SelectHTMLAttributes<HTMLSelectElement>, "id"> & {
  name: string;
  label: string;
  hint?: string;
  options: readonly (readonly [string, string])[];
}) {
  const { id, described } = useField(props.name, hint);
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <select {...props} {...described}>
        {options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
      <Below id={id} name={props.name} hint={hint} />
    </div>
  );
}

/** Several lines of text. */
export function AreaField({
  label,
  hint,
  ...props
}: Omit<TextareaHTMLAttributes<HTMLTextAreaElement>, "id"> & { name: string; label: string; hint?: string }) {
  const { id, described } = useField(props.name, hint);
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <textarea rows={4} {...VERBATIM} {...props} {...described} />
      <Below id={id} name={props.name} hint={hint} />
    </div>
  );
}

/** Nothing corrects or capitalises what is typed. */
const VERBATIM = { spellCheck: false, autoCapitalize: "none", autoCorrect: "off" } as const;

export function EmailField(props: Partial<FieldProps> & { label: string }) {
  return (
    <Field
      name="email"
      type="email"
      autoComplete="username"
      required
      maxLength={254}
      {...VERBATIM}
      {...props}
    />
  );
}

interface PasswordProps extends Omit<FieldProps, "autoComplete" | "type"> {
  /** Shows password managers which password it is. */
  autoComplete: "current-password" | "new-password";
}

export function PasswordField({ label, hint, ...props }: PasswordProps) {
  const { id, described } = useField(props.name, hint);
  const [isShown, setShown] = useState(false);
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <div className="shown">
        <input
          required
          minLength={props.autoComplete === "new-password" ? MIN_PASSWORD_CHARACTERS : undefined}
          maxLength={1024}
          {...VERBATIM}
          {...props}
          {...described}
          type={isShown ? "text" : "password"}
        />
        <button
          type="button"
          aria-label={textOf(isShown ? "form.hidePassword" : "form.showPassword")}
          aria-controls={id}
          onClick={() => setShown(!isShown)}
        >
          {textOf(isShown ? "form.hide" : "form.show")}
        </button>
      </div>
      <Below id={id} name={props.name} hint={hint} />
    </div>
  );
}

/** No policy of a service takes less. */
const MIN_PASSWORD_CHARACTERS = 8;

/** The password of whoever is logged in, as a proof. */
export function OwnPasswordField(props: Partial<PasswordProps>) {
  return (
    <PasswordField
      name="password"
      label={textOf("stepUp.password")}
      autoComplete="current-password"
      {...props}
    />
  );
}

/** Six digits of an app, or a recovery code. */
export function CodeField(props: Partial<FieldProps> & { label: string }) {
  return (
    <Field
      name="code"
      autoComplete="one-time-code"
      required
      maxLength={64}
      className="code"
      {...VERBATIM}
      {...props}
    />
  );
}
