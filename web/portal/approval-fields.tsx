import { useQuery } from "@tanstack/react-query";
import type { OwnApproval } from "#clients/api/generated/gatehouse.ts";
import { useSession } from "../session/session.ts";
import { deviceOf, localeOf, visible } from "../ui/format.ts";
import { hasText, type Language } from "../ui/text.ts";
import { currencyBeside, distinctNames, moneyText } from "./field-texts.ts";
import { type TextKey, useText } from "./text.ts";

type Details = OwnApproval["details"];

export interface ApprovalField {
  pointer: string;
  /** As it was sent. What is approved is exactly this. */
  sent: string;
  /** As people write it, where nothing about it is in doubt. */
  money?: string;
}

/** The fields of an approval in their order. Nothing in their texts is invisible, or turns another text around. */
export function fieldsOf(details: Details, language: Language): ApprovalField[] {
  return Object.entries(details).map(([pointer, value]) => {
    const money = moneyText(details, pointer, localeOf(language));
    const sent = visible(typeof value === "string" ? value : JSON.stringify(value));
    return { pointer, sent, ...(money !== undefined && { money }) };
  });
}

/** In one line: what is approved, the currency with its amount. */
export function summaryOf(details: Details, language: Language): string {
  const fields = fieldsOf(details, language);
  const beside = new Set(fields.filter(({ money }) => money).map(({ pointer }) => currencyBeside(pointer)));
  const shown = fields.filter(({ pointer }) => !beside.has(pointer));
  return shown.map(({ sent, money }) => money ?? sent).join(" · ");
}

/**
 * The names of these fields in their order. One that is not known here is named by its pointer, and of those with equal names
 * each has its pointer beside it.
 */
export function useFieldNames(): (pointers: readonly string[]) => string[] {
  const t = useText();
  return (pointers) => {
    const names = pointers.map((pointer) => {
      const key = `approval.fields.${pointer.split("/").at(-1) ?? ""}`;
      return hasText(key) ? t(key as TextKey) : visible(pointer.slice(1));
    });
    return distinctNames(names, pointers);
  };
}

/** After a comma, which session has asked. */
export function AskedBy({ approval }: { approval: Pick<OwnApproval, "current" | "sessionId"> }) {
  const t = useText();
  const { call } = useSession();
  const { data } = useQuery({
    queryKey: ["sessions"],
    queryFn: () => call("GET /auth/sessions"),
    enabled: !approval.current,
  });
  if (approval.current) return `, ${t("approval.here")}`;
  // Not known yet, or not to be had: that a session has ended would be a claim.
  if (data === undefined) return null;
  const session = data.sessions.find(({ id }) => id === approval.sessionId);
  if (session === undefined) return `, ${t("approval.elsewhere")}`;
  const { browser, system } = deviceOf(session.userAgent);
  const parts = [browser, system, session.ip].filter((part) => part !== "");
  return visible(parts.map((part) => `, ${part}`).join(""));
}
