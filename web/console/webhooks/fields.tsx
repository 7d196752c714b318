import { useContext, useRef, useState } from "react";
import { GatehouseError } from "#clients/browser/gateway-calls.ts";
import { Button } from "../../ui/button.tsx";
import { AreaField, Field } from "../../ui/field.tsx";
import { FieldProblems } from "../../ui/form.tsx";
import { ActionField, nameOfAction } from "../audit/action-field.tsx";
import { NameField } from "../clients/fields.tsx";
import { useText } from "../text.ts";
import "../audit/audit.css";

interface Wanted {
  name: string;
  url: string;
  types: readonly string[];
}

/** Name, address and types of a webhook. */
export function WebhookFields({ held }: { held?: Wanted }) {
  const t = useText();
  return (
    <>
      <NameField hint={t("webhookFields.nameHint")} {...(held && { defaultValue: held.name })} />
      <Field
        name="url"
        label={t("webhooks.url")}
        hint={t("webhookFields.urlHint")}
        defaultValue={held?.url}
        required
        // Not `url`: the browser would take what the service does not, and the other way round.
        inputMode="url"
        maxLength={2_048}
        autoComplete="off"
        autoCapitalize="none"
        spellCheck={false}
      />
      <TypesField held={held?.types ?? []} />
    </>
  );
}

/** Types of events, one a line. Those that Gatehouse has are found by their names and words; the operator's routes have others. */
function TypesField({ held }: { held: readonly string[] }) {
  const t = useText();
  const { forget } = useContext(FieldProblems);
  const [text, setText] = useState(held.join("\n"));
  const [added, setAdded] = useState(0);
  const finder = useRef<HTMLDivElement>(null);
  const add = () => {
    const action = finder.current?.querySelector("input")?.value;
    setText(typesIn({ types: text, action }).join("\n"));
    setAdded(added + 1);
    forget("types");
  };
  return (
    <>
      <AreaField
        name="types"
        label={t("webhooks.types")}
        hint={t("webhookFields.typesHint")}
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <div className="finding" ref={finder}>
        <ActionField key={added} label={t("webhookFields.find")} />
        <Button kind="quiet" onClick={add}>
          {t("webhookFields.add")}
        </Button>
      </div>
    </>
  );
}

type Entered = Readonly<Record<string, string | undefined>>;

/** The lines, and what was found and not added yet. */
function typesIn({ types = "", action = "" }: Entered): string[] {
  const lines = [...types.split("\n"), action.trim() && typeOf(action.trim())];
  return [...new Set(lines.map((line) => line.trim()).filter(Boolean))];
}

/** Of events of an action, or of a group: `auth.`. @param entered as for a search in the audit log, or a type. */
function typeOf(entered: string): string {
  if (entered.startsWith("gatehouse.")) return entered;
  const action = nameOfAction(entered);
  return action.endsWith(".") ? `gatehouse.${action}*` : `gatehouse.${action}.v1`;
}

const MAX_TYPE = 150;

/** @throws {GatehouseError} `validation_failed` at the field. */
export function wantedOf(entered: Entered): { name: string; url: string; types: string[] } {
  const types = typesIn(entered);
  if (types.length === 0 || types.some(({ length }) => length > MAX_TYPE))
    throw new GatehouseError(400, { code: "validation_failed", details: [{ field: "types" }] });
  return { name: entered.name?.trim() ?? "", url: entered.url?.trim() ?? "", types };
}
