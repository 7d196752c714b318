import { useLanguage } from "../../ui/text.ts";
import { useText } from "../text.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Of the charts: few enough bars to distinguish one from another. */
export const SPANS = {
  day: { interval: "hour", lengthMs: DAY_MS },
  week: { interval: "hour", lengthMs: 7 * DAY_MS },
  month: { interval: "day", lengthMs: 31 * DAY_MS },
} as const;
export type SpanName = keyof typeof SPANS;

export interface Bucket {
  start: string;
  logins: number;
  failures: number;
}

/** Pixels; across, everything is a share of the width. */
const HEIGHT = 120;
const TOP = 6;
const LABEL = 16;
const LABELS = 6;
/** Measured in percent of the width. */
const LATE = 75;

interface Series {
  of: "logins" | "failures";
  name: string;
}

/** A panel of bars for each series, one below the other on the same times. The same figures stand in a table. */
export function BarChart({
  buckets,
  interval,
  title,
  series,
}: {
  buckets: readonly Bucket[];
  interval: "hour" | "day";
  title: string;
  series: readonly Series[];
}) {
  const t = useText();
  const language = useLanguage();
  const number = new Intl.NumberFormat(language);
  const when = timeFormat(interval, language);
  return (
    <div className="chart">
      {series.map(({ of, name }) => (
        <Panel key={of} buckets={buckets} of={of} name={name} when={when} number={number} />
      ))}
      <details>
        <summary>{t("overview.asTable")}</summary>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, also by keys. */}
        <section className="scrolled" tabIndex={0} aria-label={title}>
          <table>
            <caption className="hidden">{title}</caption>
            <thead>
              <tr>
                <th scope="col">{t("audit.time")}</th>
                {series.map(({ of, name }) => (
                  <th key={of} scope="col">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {buckets.map((bucket) => (
                <tr key={bucket.start}>
                  <th scope="row">{when.format(new Date(bucket.start))}</th>
                  {series.map(({ of }) => (
                    <td key={of}>{number.format(bucket[of])}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      </details>
    </div>
  );
}

function Panel({
  buckets,
  of,
  name,
  when,
  number,
}: {
  buckets: readonly Bucket[];
  of: Series["of"];
  name: string;
  when: Intl.DateTimeFormat;
  number: Intl.NumberFormat;
}) {
  const t = useText();
  const most = niceMax(Math.max(...buckets.map((bucket) => bucket[of]), 0));
  const total = buckets.reduce((sum, bucket) => sum + bucket[of], 0);
  const [step, width] = [100 / buckets.length, 80 / buckets.length];
  const height = (count: number) => ((HEIGHT - TOP) * count) / most;
  const every = Math.ceil(buckets.length / LABELS);
  return (
    <figure>
      <figcaption>
        <span className={`key-of ${of}`} aria-hidden="true" />
        {name}
      </figcaption>
      <div className="plot">
        <div className="scale" aria-hidden="true">
          <span>{number.format(most)}</span>
          <span>0</span>
        </div>
        <svg
          height={HEIGHT + 2 * LABEL}
          role="img"
          aria-label={t("overview.chart", { name, total: number.format(total), most: number.format(most) })}
        >
          {[0, 0.5, 1].map((part) => (
            <line
              key={part}
              x1="0"
              x2="100%"
              y1={HEIGHT - height(most * part)}
              y2={HEIGHT - height(most * part)}
            />
          ))}
          {buckets.map((bucket, index) => (
            <g key={bucket.start} className="bar">
              <rect className="hit" x={`${index * step}%`} y={TOP} width={`${step}%`} height={HEIGHT - TOP} />
              <rect
                className={of}
                x={`${index * step + (step - width) / 2}%`}
                y={HEIGHT - height(bucket[of])}
                width={`${width}%`}
                height={height(bucket[of])}
              />
              <title>{`${when.format(new Date(bucket.start))}: ${number.format(bucket[of])}`}</title>
            </g>
          ))}
          {buckets
            .filter((_bucket, index) => index % every === 0)
            .map((bucket, index) => {
              // The last ones end with their bar: from its begin there may be no room for them.
              const isLate = index * every * step > LATE;
              return (
                <text
                  key={bucket.start}
                  className={index % 2 === 1 ? "spare" : ""}
                  textAnchor={isLate ? "end" : "start"}
                  x={`${(index * every + (isLate ? 1 : 0)) * step}%`}
                  y={HEIGHT + LABEL + 2}
                >
                  {when.format(new Date(bucket.start))}
                </text>
              );
            })}
        </svg>
      </div>
    </figure>
  );
}

/** 1, 2, 4, 6, 8, 10, 20, 40, … */
function niceMax(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  return power * ([1, 2, 4, 6, 8].find((factor) => factor * power >= value) ?? 10);
}

/** Days are those of UTC, as they are counted. */
function timeFormat(interval: "hour" | "day", language: string): Intl.DateTimeFormat {
  if (interval === "day")
    return new Intl.DateTimeFormat(language, { day: "numeric", month: "short", timeZone: "UTC" });
  return new Intl.DateTimeFormat(language, {
    weekday: "short",
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
  });
}

/** With the hours or days in which nothing happened, which the API leaves out. */
export function filled(
  { from, to, buckets }: { from: string; to: string; buckets: readonly Bucket[] },
  span: SpanName,
): Bucket[] {
  const stepMs = SPANS[span].interval === "hour" ? HOUR_MS : DAY_MS;
  const found = new Map(buckets.map((bucket) => [Date.parse(bucket.start), bucket]));
  const count = Math.max(0, Math.ceil((Date.parse(to) - Date.parse(from)) / stepMs));
  return Array.from({ length: count }, (_, index) => {
    const at = Date.parse(from) + index * stepMs;
    return found.get(at) ?? { start: new Date(at).toISOString(), logins: 0, failures: 0 };
  });
}
