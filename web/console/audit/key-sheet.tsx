import { GatehouseError } from "#clients/browser/gateway-calls.ts";
import { parseKey } from "../../audit-proof/checkpoint.ts";
import { Button } from "../../ui/button.tsx";
import { Sheet } from "../../ui/dialog.tsx";
import { Field } from "../../ui/field.tsx";
import { ActionForm } from "../../ui/form.tsx";
import { visible } from "../../ui/format.ts";
import { save } from "../../ui/save.ts";
import { useLanguage } from "../../ui/text.ts";
import { Copyable } from "../copyable.tsx";
import { useText } from "../text.ts";
import { momentText } from "../when.tsx";
import { forgetLog, readMemory, trustKey } from "./log-memory.ts";
import { useCheckAgain, useEndAlarm } from "./use-checked.ts";

/** The key that this browser trusts: to compare, to replace by one that came another way, or to forget. */
export function KeySheet({ onClose }: { onClose: () => void }) {
  const t = useText();
  const language = useLanguage();
  const checkAgain = useCheckAgain();
  const endAlarm = useEndAlarm();
  const { key = "", comparedAt, last } = readMemory();
  const changed = () => {
    onClose();
    // What cannot be asked for now is asked for again, and ends no alarm.
    checkAgain().catch(() => undefined);
  };
  const pin = async ({ key: entered = "" }: Readonly<Record<string, string>>) => {
    const pinned = entered.trim().replace(/^Verifier key:\s*/, "");
    await parseKey(pinned).catch(() => {
      throw new GatehouseError(400, { code: "validation_failed", details: [{ field: "key" }] });
    });
    trustKey(pinned, new Date().toISOString());
    changed();
  };
  return (
    <Sheet title={t("logKey.title")} onClose={onClose}>
      {() => (
        <>
          <p className="muted">
            {comparedAt === undefined
              ? t("logKey.seenFirst")
              : t("logKey.compared", { when: momentText(comparedAt, language) })}
          </p>
          <code className="key">{visible(key)}</code>
          <p className="small muted">{t("logKey.where")}</p>
          <Copyable name={t("logKey.command")} text="gatehouse audit checkpoint" />
          <ActionForm
            submit={t("logKey.compare")}
            action={pin}
            beside={
              key !== "" &&
              comparedAt === undefined && (
                <Button
                  kind="quiet"
                  onClick={() => {
                    trustKey(key, new Date().toISOString());
                    changed();
                  }}
                >
                  {t("logKey.byEye")}
                </Button>
              )
            }
          >
            <Field
              name="key"
              label={t("logKey.yours")}
              hint={t("logKey.hint")}
              required
              spellCheck={false}
              autoCapitalize="none"
              autoComplete="off"
              maxLength={300}
            />
          </ActionForm>
          <div className="small stack">
            {last !== undefined && (
              <button
                type="button"
                className="plain"
                onClick={() => {
                  const line = `${JSON.stringify({ type: "checkpoint", note: last.note })}\n`;
                  save(new Blob([line], { type: "application/x-ndjson" }), `checkpoint-${last.size}.jsonl`);
                }}
              >
                {t("logKey.saveCheckpoint")}
              </button>
            )}
            <button
              type="button"
              className="plain"
              onClick={() => {
                forgetLog();
                endAlarm();
                changed();
              }}
            >
              {t("logKey.forget")}
            </button>
            <p className="muted">{t("logKey.forgetLead")}</p>
          </div>
        </>
      )}
    </Sheet>
  );
}
