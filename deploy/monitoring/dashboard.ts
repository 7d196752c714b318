/** Panels have equal width. */
interface Row {
  title: string;
  panels: readonly Panel[];
}

interface Panel {
  title: string;
  /** A unit of Grafana: `s`, `reqps`, `percentunit`, `bytes`, `short`. */
  unit: string;
  /** A single number instead of a curve. */
  isStat?: true;
  /** Legends use Grafana's `{{label}}` form. */
  queries: readonly (readonly [expr: string, legend: string])[];
  description?: string;
}

export interface Dashboard {
  uid: string;
  title: string;
  rows: readonly Row[];
}

const WIDTH = 24;
const HEIGHT = 8;
const DATASOURCE = { type: "prometheus", uid: "$datasource" };

/** Uses schema 39 of Grafana 10 and newer. */
export function toGrafana({ uid, title, rows }: Dashboard): object {
  let id = 0;
  const panels = rows.flatMap((row, index) => {
    const y = index * (HEIGHT + 1);
    const width = Math.floor(WIDTH / row.panels.length);
    return [
      {
        id: ++id,
        type: "row",
        title: row.title,
        collapsed: false,
        gridPos: { h: 1, w: WIDTH, x: 0, y },
        panels: [],
      },
      ...row.panels.map((panel, column) => ({
        id: ++id,
        ...toPanel(panel),
        gridPos: { h: HEIGHT, w: width, x: column * width, y: y + 1 },
      })),
    ];
  });
  return {
    uid,
    title,
    tags: ["gatehouse"],
    schemaVersion: 39,
    editable: true,
    refresh: "30s",
    time: { from: "now-3h", to: "now" },
    timezone: "utc",
    templating: {
      list: [{ name: "datasource", label: "Data source", type: "datasource", query: "prometheus" }],
    },
    links: [{ type: "dashboards", tags: ["gatehouse"], title: "Gatehouse", asDropdown: true }],
    panels,
  };
}

function toPanel({ title, unit, isStat, queries, description }: Panel): object {
  return {
    type: isStat ? "stat" : "timeseries",
    title,
    ...(description !== undefined && { description }),
    datasource: DATASOURCE,
    fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
    options: isStat
      ? { reduceOptions: { calcs: ["lastNotNull"] }, colorMode: "value" }
      : { legend: { displayMode: "list", placement: "bottom" }, tooltip: { mode: "multi", sort: "desc" } },
    targets: queries.map(([expr, legendFormat], index) => ({
      refId: String.fromCharCode(65 + index),
      datasource: DATASOURCE,
      expr,
      legendFormat,
    })),
  };
}
