import { Link } from "@tanstack/react-router";
import { useReading } from "../../session/reading.tsx";
import { useMay } from "../../session/session.ts";
import { Section } from "../../ui/frame.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Found } from "../../ui/states.tsx";
import { useLanguage } from "../../ui/text.ts";
import { useKnownText, useText } from "../text.ts";
import { momentText } from "../when.tsx";

const EVERY_MS = 60_000;
/** While many users are counted for the first time, which is an outage until it ends. */
const COUNTING_MS = 5_000;
const SHARES: ReadonlySet<string> = new Set(["active", "withSecondFactor", "withPasskey"]);

/** What is now, as far as the person may see it. Each part is asked for by itself: one that fails takes nothing else away. */
export function PresentState() {
  const may = useMay();
  return (
    <>
      {may("users:read") && <People />}
      {may("system:read") && <Services />}
    </>
  );
}

function People() {
  const t = useText();
  const known = useKnownText();
  const language = useLanguage();
  const query = useReading({
    queryKey: ["figures"],
    read: (call) => call("GET /admin/users/figures"),
    staleTime: EVERY_MS,
    refetchInterval: ({ state }) => (state.data === undefined ? COUNTING_MS : EVERY_MS),
  });
  const number = new Intl.NumberFormat(language);
  const percent = new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 1 });
  return (
    <Section title={t("overview.people")}>
      <Found query={query}>
        {({ figures, countedAt }) => {
          const all = figures.find(({ name }) => name === "users")?.count ?? 0;
          return (
            <>
              <dl className="figures">
                {figures.map(({ name, count, isEstimate }) => (
                  <Tile
                    key={name}
                    name={known("figures", name)}
                    figure={
                      isEstimate ? t("overview.about", { count: number.format(count) }) : number.format(count)
                    }
                    isBad={name === "mailsFailed" && count > 0}
                    note={
                      SHARES.has(name) && all > 0
                        ? t("overview.ofUsers", { share: percent.format(Math.min(1, count / all)) })
                        : ""
                    }
                  />
                ))}
              </dl>
              <p className="small muted">
                {t("overview.countedAt", { when: momentText(countedAt, language) })}
              </p>
            </>
          );
        }}
      </Found>
    </Section>
  );
}

function Services() {
  const t = useText();
  const known = useKnownText();
  const query = useReading({
    queryKey: ["health"],
    read: (call) => call("GET /admin/health"),
    refetchInterval: EVERY_MS,
  });
  return (
    <Section title={t("overview.services")}>
      <Found query={query}>
        {({ services }) => (
          <>
            {query.isError && <Notice isBad>{t("system.stale")}</Notice>}
            <dl className="figures">
              {services.map(({ name, ready }) => (
                <Tile
                  key={name}
                  name={name}
                  figure={t(ready ? "system.ready" : "system.away")}
                  isBad={!ready}
                  note={known("services", name)}
                />
              ))}
            </dl>
          </>
        )}
      </Found>
      <p className="small way">
        <Link to="/system">{t("overview.seeSystem")}</Link>
      </p>
    </Section>
  );
}

export function Tile({
  name,
  figure,
  note = "",
  isBad = false,
}: {
  name: string;
  figure: string;
  note?: string;
  isBad?: boolean;
}) {
  return (
    <div className={isBad ? "bad" : ""}>
      <dt>{name}</dt>
      <dd>
        <strong>{figure}</strong>
        {note !== "" && <span className="small muted">{note}</span>}
      </dd>
    </div>
  );
}
