import { type ReactNode, useEffect, useLayoutEffect, useRef } from "react";
import { addressOf, BRAND } from "./brand.ts";
import { chooseLanguage, languages, textOf, useLanguage } from "./text.ts";
import { chooseTheme, THEMES, type Theme, useTheme } from "./theme.ts";

/** The bar at the top, and the page below. @param home where the mark leads. @param beside stands left of the choices. */
export function Frame({ home, beside, children }: { home: string; beside?: ReactNode; children: ReactNode }) {
  const language = useLanguage();
  const theme = useTheme();
  const logo = addressOf("logo");
  return (
    <>
      <a className="skip" href="#content">
        {textOf("tools.skip")}
      </a>
      <header className="bar">
        <a className="brand" href={home}>
          {logo === undefined ? <Gate /> : <img src={logo} alt="" />}
          <span>{BRAND}</span>
        </a>
        {beside}
        <div className="tools">
          <Choice
            label={textOf("tools.language")}
            value={language}
            options={languages()}
            onChoose={(value) => void chooseLanguage(value)}
          />
          <Choice
            label={textOf("tools.theme")}
            value={theme}
            options={THEMES.map((name) => [name, textOf(`tools.themes.${name}`)])}
            onChoose={(value) => chooseTheme(value as Theme)}
          />
        </div>
      </header>
      {children}
      <Foot />
    </>
  );
}

function Foot() {
  const links = [
    [addressOf("help"), textOf("tools.support")],
    [addressOf("privacy-policy"), textOf("tools.privacy")],
    [addressOf("terms-of-service"), textOf("tools.terms")],
  ].filter(([url]) => url !== undefined);
  if (links.length === 0) return null;
  return (
    <footer className="foot">
      {links.map(([url, text]) => (
        <a key={url} href={url}>
          {text}
        </a>
      ))}
    </footer>
  );
}

function Choice({
  label,
  value,
  options,
  onChoose,
}: {
  label: string;
  value: string;
  options: [string, string][];
  onChoose: (value: string) => void;
}) {
  return (
    <label className="choice">
      <span className="hidden">{label}</span>
      <select value={value} onChange={(event) => onChoose(event.target.value)}>
        {options.map(([name, text]) => (
          <option key={name} value={name}>
            {text}
          </option>
        ))}
      </select>
      <svg
        width="10"
        height="6"
        viewBox="0 0 10 6"
        fill="none"
        stroke="currentColor"
        strokeWidth="1.5"
        aria-hidden="true"
      >
        <path d="m1 1 4 4 4-4" />
      </svg>
    </label>
  );
}

function Gate() {
  return (
    <svg
      width="22"
      height="22"
      viewBox="0 0 22 22"
      fill="none"
      stroke="currentColor"
      strokeWidth="2"
      aria-hidden="true"
    >
      <path d="M3 20V10a8 8 0 0 1 16 0v10M1 20h20M8 20v-9a3 3 0 0 1 6 0v9" />
    </svg>
  );
}

/** The pages beside each other. Where they do not fit, the present one is in sight. @param present its path. */
export function Rooms({ present, children }: { present: string; children: ReactNode }) {
  const list = useRef<HTMLUListElement>(null);
  const language = useLanguage();
  useEffect(() => {
    const marked = list.current?.querySelector("[aria-current]");
    marked?.scrollIntoView({ block: "nearest", inline: "center" });
    // Names have another width in another language.
  }, [present, language]);
  return (
    <nav aria-label={textOf("tools.navigation")}>
      <ul ref={list} className="rooms">
        {children}
      </ul>
    </nav>
  );
}

/** The heading of a page. It gets the focus when the page opens, so that a screen reader says where the person is now. */
export function PageTitle({ children, lead }: { children: string; lead?: ReactNode }) {
  const heading = useRef<HTMLHeadingElement>(null);
  // Before the heading is painted: nothing sees the one without the other.
  useLayoutEffect(() => {
    document.title = `${children} – ${BRAND}`;
    if (document.activeElement === document.body) heading.current?.focus({ preventScroll: true });
  }, [children]);
  useEffect(() => {
    // On the link that led here, not in a field of this page.
    const isOutside = document.activeElement?.closest("main, [role=dialog]") === null;
    if (isOutside) heading.current?.focus({ preventScroll: true });
  }, []);
  return (
    <div className="lead">
      <h1 ref={heading} tabIndex={-1}>
        {children}
      </h1>
      {lead !== undefined && <p>{lead}</p>}
    </div>
  );
}

interface SectionProps {
  title: string;
  /** In a word, such as "on". */
  state?: ReactNode;
  lead?: ReactNode;
  children: ReactNode;
}

export function Section({ title, state, lead, children }: SectionProps) {
  return (
    <section className="section">
      <header>
        <div className="tagged">
          <h2>{title}</h2>
          {state}
        </div>
        {lead !== undefined && <p>{lead}</p>}
      </header>
      {children}
    </section>
  );
}
