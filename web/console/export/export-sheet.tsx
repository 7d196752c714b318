import { type ReactNode, useEffect, useRef, useState } from "react";
import { Button } from "../../ui/button.tsx";
import { Sheet } from "../../ui/dialog.tsx";
import { useAction } from "../../ui/form.tsx";
import { Notice } from "../../ui/notice.tsx";
import { save } from "../../ui/save.ts";
import { useLanguage } from "../../ui/text.ts";
import { type TextKey, useText } from "../text.ts";

export type Format = "ndjson" | "csv";
const FORMAT_NAMES = { ndjson: "JSON Lines", csv: "CSV" } as const;

interface Saved {
  format: Format;
  parts: number;
  /** Of all parts. */
  entries: number;
  /** Undefined if these parts are the whole. */
  nextCursor: string | undefined;
}

export interface PartWanted {
  format: Format;
  /** Undefined for the first part. */
  cursor: string | undefined;
  /** Of the parts before. */
  entries: number;
  signal: AbortSignal;
  onProgress: (text: string) => void;
}

/** One that is not whole is not saved, since it could be taken for the whole. */
type Part = Pick<Saved, "entries" | "nextCursor"> & { file: Blob };
type ReadPart = (wanted: PartWanted) => Promise<Part | { failure: string }>;

/** What a search finds, as files. */
export function ExportSheet({
  name,
  texts,
  formats,
  countOf,
  readPart,
  onClose,
  children,
}: {
  name: "audit" | "users";
  texts: Record<"title" | "lead" | "whole" | "more", TextKey>;
  formats: readonly Format[];
  /** What is known of the whole, while there are more. */
  countOf: (entries: number) => string;
  readPart: ReadPart;
  onClose: () => void;
  /** `forget`: the parts of one export are of one search. */
  children?: (isRunning: boolean, forget: () => void) => ReactNode;
}) {
  const t = useText();
  const language = useLanguage();
  const [progress, setProgress] = useState("");
  const [saved, setSaved] = useState<Saved>();
  const [failure, setFailure] = useState<string>();
  const stop = useRef<AbortController>(undefined);
  useEffect(() => () => stop.current?.abort(), []);
  const { run, isRunning, problem } = useAction(async (format: Format, former?: Saved) => {
    stop.current = new AbortController();
    setSaved(former);
    setFailure(undefined);
    setProgress("");
    const { signal } = stop.current;
    const { nextCursor: cursor, entries = 0, parts = 0 } = former ?? {};
    const stopped = new Promise<undefined>((resolve) =>
      signal.addEventListener("abort", () => resolve(undefined), { once: true }),
    );
    const wanted = { format, cursor, entries, signal, onProgress: setProgress };
    const part = await Promise.race([readPart(wanted), stopped]);
    if (part === undefined) return setFailure(t("export.stopped"));
    if ("failure" in part) return setFailure(part.failure);
    const { file, nextCursor } = part;
    const isPart = parts > 0 || nextCursor !== undefined;
    const time = new Date().toISOString().slice(0, 19).replaceAll(":", "");
    save(file, `${name}-${time}${isPart ? `-part${parts + 1}` : ""}.${format}`);
    setSaved({ format, parts: parts + 1, entries: entries + part.entries, nextCursor });
  });
  const hasMore = saved?.nextCursor !== undefined;
  return (
    <Sheet title={t(texts.title)} onClose={onClose}>
      {() => (
        <>
          <p className="muted">{t(texts.lead)}</p>
          {problem !== undefined && <Notice isBad>{problem.message}</Notice>}
          {failure !== undefined && <Notice isBad>{failure}</Notice>}
          {isRunning && <p role="status">{progress}</p>}
          {saved !== undefined && !isRunning && (
            <Notice isBad={hasMore}>
              {t(hasMore ? texts.more : texts.whole, {
                count: countOf(saved.entries),
                entries: new Intl.NumberFormat(language).format(saved.entries),
                parts: saved.parts,
              })}
            </Notice>
          )}
          {children?.(isRunning, () => setSaved(undefined))}
          <div className="buttons">
            {saved !== undefined && hasMore && (
              <Button isPending={isRunning} onClick={() => void run(saved.format, saved)}>
                {t("export.next")}
              </Button>
            )}
            {formats.map((format) => (
              <Button key={format} isPending={isRunning} onClick={() => void run(format)}>
                {FORMAT_NAMES[format]}
              </Button>
            ))}
            <Button kind="quiet" onClick={() => (isRunning ? stop.current?.abort() : onClose())}>
              {t(isRunning ? "bulk.stop" : "bulk.close")}
            </Button>
          </div>
        </>
      )}
    </Sheet>
  );
}
