import { type FormEvent, useId, useRef, useState } from "react";
import { useMay } from "../../session/session.ts";
import { Button } from "../../ui/button.tsx";
import { Field } from "../../ui/field.tsx";
import { FieldProblems, useAction } from "../../ui/form.tsx";
import { Notice } from "../../ui/notice.tsx";
import { type TextKey, useText } from "../text.ts";
import { useFindByAddress } from "../users/find-by-address.ts";
import { ActionField, nameOfAction } from "./action-field.tsx";
import { type AuditSearch, PERSON_FILTERS, problemOf, readSearch, TEXTS } from "./audit-search.ts";

const SPANS = { hour: 3_600_000, day: 24 * 3_600_000, week: 7 * 24 * 3_600_000 };
const VERBATIM = { spellCheck: false, autoCapitalize: "none", autoComplete: "off" } as const;
const TIMES = ["from", "to"] as const;
const isTime = (name: string) => TIMES.some((time) => time === name);

type IdsOf = Readonly<Record<string, string>>;

/**
 * @param idsOf of addresses that were entered before.
 * @param onSearch gets what was entered, all of it usable, and the ids of the addresses among it.
 */
export function Filters({
  search,
  idsOf = {},
  onSearch,
}: {
  search: AuditSearch;
  idsOf: IdsOf | undefined;
  onSearch: (next: AuditSearch, idsOf?: IdsOf) => void;
}) {
  const t = useText();
  const outcomeId = useId();
  const form = useRef<HTMLFormElement>(null);
  const [problems, setProblems] = useState<Record<string, () => string>>({});
  const [cleared, setCleared] = useState(0);
  const [isOpen, setOpen] = useState(false);
  const formId = useId();
  const { live, ...others } = search;
  const chosen = Object.keys(others).length;
  const withIds = useIdsOfAddresses();
  /** Searches what was entered, with other times in place of the entered ones if there are any. */
  const {
    run: find,
    isRunning,
    problem: failure,
  } = useAction(async (times?: AuditSearch) => {
    if (form.current === null) return;
    const { entered, unknown, found: ids } = await withIds(entriesOf(form.current), idsOf);
    if (entered.action !== undefined) entered.action = nameOfAction(entered.action);
    const found = TEXTS.flatMap((name): [string, () => string][] => {
      if (times !== undefined && isTime(name)) return [];
      const isUnfinished = inputOf(form.current, name)?.validity.badInput === true;
      const problem = isUnfinished ? "form.invalid" : (unknown[name] ?? problemOf(name, entered[name] ?? ""));
      return problem === undefined ? [] : [[name, () => t(problem)]];
    });
    setProblems(Object.fromEntries(found));
    const [first] = found;
    if (first !== undefined) return inputOf(form.current, first[0])?.focus();
    for (const name of times === undefined ? [] : TIMES) delete entered[name];
    const wanted = readSearch({ ...entered, reads: entered.reads === "on" });
    onSearch({ ...wanted, ...times, ...(live && { live }) }, ids);
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    void find();
  };
  const since = (spanMs: number) => void find({ from: new Date(Date.now() - spanMs).toISOString() });
  const clear = () => {
    setProblems({});
    // What was entered and not searched goes as well.
    setCleared((before) => before + 1);
    onSearch(live ? { live } : {}, {});
  };
  const forget = (name: string) => setProblems(({ [name]: _forgotten, ...others }) => others);
  return (
    <FieldProblems value={{ problems, forget }}>
      <search>
        <div className="fold">
          <Button
            kind="quiet"
            size="slim"
            aria-expanded={isOpen}
            aria-controls={formId}
            onClick={() => setOpen(!isOpen)}
          >
            {t("audit.filters") + (chosen > 0 ? ` (${chosen})` : "")}
          </Button>
        </div>
        {/* A change of the address, as by the button back, fills it again. */}
        <form
          key={`${cleared} ${JSON.stringify(search)}`}
          ref={form}
          id={formId}
          className={isOpen ? "filters" : "filters folded"}
          noValidate
          onSubmit={submit}
        >
          {failure !== undefined && <Notice isBad>{failure.message}</Notice>}
          <ActionField
            label={t("audit.action")}
            {...(search.action !== undefined && { defaultValue: search.action })}
          />
          <Field
            name="actor"
            label={t("audit.actor")}
            defaultValue={enteredAs(search.actor, idsOf)}
            {...VERBATIM}
          />
          <Field
            name="resource"
            label={t("audit.resource")}
            defaultValue={enteredAs(search.resource, idsOf)}
            {...VERBATIM}
          />
          <div className="field">
            <label htmlFor={outcomeId}>{t("audit.outcome")}</label>
            <select id={outcomeId} name="outcome" defaultValue={search.outcome ?? ""}>
              <option value="">{t("audit.anyOutcome")}</option>
              <option value="success">{t("audit.success")}</option>
              <option value="failure">{t("audit.failure")}</option>
              <option value="unknown">{t("audit.unknown")}</option>
            </select>
          </div>
          {!live && (
            <>
              {TIMES.map((name) => (
                <Field
                  key={name}
                  name={name}
                  type="datetime-local"
                  label={name === "from" ? t("audit.from") : t("audit.to")}
                  defaultValue={localTime(search[name])}
                />
              ))}
              <Field
                name="requestId"
                label={t("audit.requestId")}
                defaultValue={search.requestId}
                {...VERBATIM}
              />
            </>
          )}
          <label className="check">
            <input type="checkbox" name="reads" defaultChecked={search.reads} />
            {t("audit.reads")}
          </label>
          <div className="buttons">
            <Button type="submit" size="slim" isPending={isRunning}>
              {t("audit.search")}
            </Button>
            <Button kind="quiet" size="slim" onClick={clear}>
              {t("audit.clear")}
            </Button>
            {!live && (
              <span className="spans">
                <button type="button" className="plain" onClick={() => since(SPANS.hour)}>
                  {t("audit.lastHour")}
                </button>
                <button type="button" className="plain" onClick={() => since(SPANS.day)}>
                  {t("audit.lastDay")}
                </button>
                <button type="button" className="plain" onClick={() => since(SPANS.week)}>
                  {t("audit.lastWeek")}
                </button>
              </span>
            )}
          </div>
        </form>
      </search>
    </FieldProblems>
  );
}

/** Puts the id in place of a person's address, which must not get into the address of the page. */
function useIdsOfAddresses() {
  const findByAddress = useFindByAddress();
  const mayFind = useMay()("users:read");
  return async (given: Record<string, string>, known: IdsOf) => {
    const entered = { ...given };
    const unknown: Record<string, TextKey> = {};
    const found: Record<string, string> = {};
    for (const name of PERSON_FILTERS) {
      const address = entered[name];
      if (address?.includes("@") !== true) continue;
      const person = known[address] === undefined && mayFind ? await findByAddress(address) : undefined;
      const id = known[address] ?? person?.id;
      if (id !== undefined) entered[name] = found[person?.email ?? address] = id;
      else unknown[name] = mayFind ? "audit.noPerson" : "audit.mayNotFind";
    }
    return { entered, unknown, found };
  };
}

/** The address in place of the id that it was searched by. */
const enteredAs = (text: string | undefined, idsOf: IdsOf) =>
  Object.entries(idsOf).find(([, id]) => id === text)?.[0] ?? text;

const inputOf = (form: HTMLFormElement | null, name: string) =>
  form?.elements.namedItem(name) as HTMLInputElement | null;

/** Times of the form are local. */
function entriesOf(form: HTMLFormElement): Record<string, string> {
  const entered = [...new FormData(form)].map(([name, value]) => [name, String(value).trim()] as const);
  return Object.fromEntries(
    entered
      .filter(([, value]) => value !== "")
      .map(([name, value]) => [name, isTime(name) ? new Date(value).toISOString() : value]),
  );
}

function localTime(time: string | undefined): string {
  if (time === undefined) return "";
  const at = new Date(time);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
