import { useState } from "react";
import { stopOf } from "../../session/reading.tsx";
import { useAttended } from "../../ui/attended.tsx";
import { Button } from "../../ui/button.tsx";
import { explain } from "../../ui/explain.ts";
import { useLanguage } from "../../ui/text.ts";
import { useText } from "../text.ts";
import { momentText } from "../when.tsx";
import type { AuditSearch } from "./audit-search.ts";
import { EntryRows } from "./entry-rows.tsx";
import { MAX_ROWS, useTail } from "./use-tail.ts";

/** The log as it grows, newest first. */
export function Follow({ search }: { search: AuditSearch }) {
  const t = useText();
  const language = useLanguage();
  const [isPaused, setPaused] = useState(false);
  const { entries, state, dropped, gap, goOn } = useTail(search, isPaused);
  const isAttended = useAttended();
  const isStill = isPaused || !isAttended;
  const isForbidden = state.kind === "stopped" && stopOf(state.why) === "forbidden";
  const status = {
    starting: () => t("states.loading"),
    live: () => t("audit.live"),
    paused: () => t("audit.paused"),
    interrupted: () => t("audit.interrupted", { why: explain(state.why).message }),
    stopped: () => t(isForbidden ? "states.forbidden" : "audit.stopped"),
  }[isStill ? "paused" : state.kind];
  return (
    <>
      <div className="follow">
        <p
          role="status"
          className={
            (state.kind === "interrupted" || state.kind === "stopped") && !isStill ? "wrong" : "muted"
          }
        >
          <span className={state.kind === "live" && !isStill ? "pulse" : "pulse off"} aria-hidden="true" />
          {status()}
        </p>
        {isForbidden && !isPaused ? (
          <Button kind="quiet" size="slim" onClick={() => goOn()}>
            {t("states.again")}
          </Button>
        ) : (
          <Button kind="quiet" size="slim" onClick={() => setPaused(!isPaused)}>
            {t(isPaused ? "audit.resume" : "audit.pause")}
          </Button>
        )}
      </div>
      {gap !== undefined && (
        <p className="muted small">
          {t("audit.gap", { from: momentText(gap.from, language), to: momentText(gap.to, language) })}
        </p>
      )}
      <EntryRows entries={entries} caption={t("audit.follow")} empty={t("audit.nothingYet")} />
      {dropped > 0 && <p className="muted small">{t("audit.kept", { count: MAX_ROWS })}</p>}
    </>
  );
}
