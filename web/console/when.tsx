import { localeOf, visible } from "../ui/format.ts";
import { type Language, useLanguage } from "../ui/text.ts";

type Style = Intl.DateTimeFormatOptions["timeStyle"];

/** Date and time as the reader writes them. What is no time stays as it is. @param time RFC 3339. */
export function momentText(
  time: string,
  language: Language,
  timeStyle: Style = "medium",
  dateStyle: Style = "medium",
): string {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) return visible(time);
  return new Intl.DateTimeFormat(localeOf(language), { dateStyle, timeStyle }).format(at);
}

/** A time; the zone on hover. @param isExact with seconds. */
export function When({ time, isExact = false }: { time: string; isExact?: boolean }) {
  const language = useLanguage();
  return (
    <time className="when" dateTime={time} title={momentText(time, language, "long", "full")}>
      {momentText(time, language, isExact ? "medium" : "short")}
    </time>
  );
}
