import type { FieldProblem } from "#kit/values/errors.ts";
import { languageTag, timeZoneName } from "#kit/values/locale.ts";

/** Whom a mail is for. Null if the account keeps none. */
export interface Reader {
  /** BCP 47. */
  language: string | null;
  /** IANA. */
  timeZone: string | null;
}

interface Checked {
  language: string | null | undefined;
  timeZone: string | null | undefined;
  problems: FieldProblem[];
}

/** Of the mails of a person. An empty text takes away what the account keeps; undefined leaves it. */
export function readerFields(typed: {
  language?: string | undefined;
  timeZone?: string | undefined;
}): Checked {
  const language = typed.language && languageTag(typed.language);
  const timeZone = typed.timeZone && timeZoneName(typed.timeZone);
  const problem = (field: string, message: string) => ({ field, code: "invalid_format", message }) as const;
  return {
    language: typed.language === undefined ? undefined : language || null,
    timeZone: typed.timeZone === undefined ? undefined : timeZone || null,
    problems: [
      ...(typed.language && language === undefined
        ? [problem("language", "must be a language tag, such as de or pt-BR")]
        : []),
      ...(typed.timeZone && timeZone === undefined
        ? [problem("timeZone", "must be a time zone, such as Europe/Berlin")]
        : []),
    ],
  };
}
