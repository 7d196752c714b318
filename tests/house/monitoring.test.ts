import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parser } from "@prometheus-io/lezer-promql";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import { toGrafana } from "#deploy/monitoring/dashboard.ts";
import { DASHBOARDS } from "#deploy/monitoring/dashboards.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");
const MONITORING = join(ROOT, "deploy", "monitoring");
const RUNBOOKS = join(ROOT, "docs", "operations", "runbooks");
const read = (...path: string[]) => readFileSync(join(...path), "utf8");

/** Metrics of Prometheus itself, of prom-client's defaults, and of kube-state-metrics (stable ones). */
const FOREIGN =
  /^(?:up|ALERTS|process_\w+|nodejs_\w+|kube_persistentvolumeclaim_info|kube_pod_status_ready)$/;

const ruleFile = z.object({
  groups: z.array(
    z.object({
      rules: z.array(
        z.union([
          z.strictObject({ record: z.string().regex(/^gatehouse:\w+:\w+$/), expr: z.string() }),
          z.strictObject({
            alert: z.string().regex(/^Gatehouse[A-Z]\w+$/),
            expr: z.string(),
            for: z.string().regex(/^\d+[mh]$|^30s$/),
            labels: z.strictObject({ severity: z.enum(["page", "ticket"]) }),
            annotations: z.strictObject({
              summary: z.string().min(10),
              description: z.string().min(20),
              runbook_url: z.string(),
            }),
          }),
        ]),
      ),
    }),
  ),
});
const rules = ruleFile
  .parse(parse(read(MONITORING, "gatehouse.rules.yaml")))
  .groups.flatMap(({ rules }) => rules);
const alerts = rules.flatMap((rule) => ("alert" in rule ? [rule] : []));
const recorded = new Set(rules.flatMap((rule) => ("record" in rule ? [rule.record] : [])));

/** The sources of the processes. */
const sources = readSources();
/** Names that the source hands to `metrics.counter`, `gauge` or `histogram`. */
const registered = registeredMetrics();

function readSources(): string[] {
  const texts: string[] = [];
  for (const folder of [
    "packages",
    "gateway",
    "identity-service",
    "token-service",
    "audit-service",
    "event-service",
  ]) {
    for (const name of readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })) {
      if (name.endsWith(".ts") && !name.endsWith(".test.ts")) texts.push(read(ROOT, folder, name));
    }
  }
  return texts;
}

function registeredMetrics(): Set<string> {
  const names = new Set<string>();
  for (const text of sources) {
    for (const [, kind, metric = ""] of text.matchAll(
      /\b(counter|gauge|histogram)(?:<[^>]*>)?\(\s*"(gatehouse_\w+)"/g,
    )) {
      const parts = kind === "histogram" ? ["_bucket", "_count", "_sum"] : [""];
      for (const part of parts) names.add(metric + part);
      names.add(metric);
    }
  }
  return names;
}

/** The names of the series in an expression. @throws if it does not parse. */
function seriesOf(expression: string): string[] {
  // Grafana's variables stand where PromQL has a duration.
  const text = expression.replaceAll("$__rate_interval", "5m");
  const names: string[] = [];
  parser.parse(text).iterate({
    enter(node) {
      if (node.type.isError) throw new Error(`does not parse at ${node.from}: ${text}`);
      if (node.name === "VectorSelector")
        names.push(/^[\w:]+/.exec(text.slice(node.from, node.to))?.[0] ?? "");
    },
  });
  return names;
}

function isKnown(name: string): boolean {
  return FOREIGN.test(name) || recorded.has(name) || registered.has(name);
}

const unknownIn = (expression: string) => seriesOf(expression).filter((name) => !isKnown(name));

test("the source has metrics, so that no check below passes by looking at nothing", () => {
  expect(registered.size).toBeGreaterThan(40);
  expect(alerts.length).toBeGreaterThan(25);
  expect(seriesOf('a{b="c"} / on (x) sum(rate(d:e:f[5m]))')).toEqual(["a", "d:e:f"]);
  expect(() => seriesOf("sum(rate(a[5m])")).toThrow(/does not parse/);
});

test("every rule parses and reads what some process registers", () => {
  expect(rules.flatMap(({ expr }) => unknownIn(expr))).toEqual([]);
});

test("what an alert counts by a label is there before the first time, which increase() would not see", () => {
  const counted = alerts.flatMap(({ expr }) =>
    [...expr.matchAll(/increase\((\w+)\{(\w+)="(\w+)"\}/g)].map(([, ...found]) => found),
  );
  expect(counted.length).toBeGreaterThan(2);
  const absent = counted.filter(([name, label, value]) => {
    const begun = `.inc({ ${label}: "${value}" }, 0)`;
    return !sources.some((text) => text.includes(`"${name}"`) && text.includes(begun));
  });
  expect(absent).toEqual([]);
});

test("every alert has its runbook, and every runbook its alert", () => {
  for (const { alert, annotations } of alerts) {
    expect(annotations.runbook_url).toBe(`docs/operations/runbooks/${alert}.md`);
  }
  const names = [...new Set(alerts.map(({ alert }) => `${alert}.md`))];
  expect(
    readdirSync(RUNBOOKS)
      .filter((name) => name !== "README.md")
      .sort(),
  ).toEqual(names.sort());
});

test.each([...new Set(alerts.map(({ alert }) => alert))])(
  "the runbook of %s can be worked with at night",
  (alert) => {
    const text = read(RUNBOOKS, `${alert}.md`);
    expect(text.split("\n")[0]).toBe(`# ${alert}`);
    // Each part begins a paragraph, once and in this order, and says something.
    const parts = [...text.matchAll(/(?<=\n\n)\*\*([^*]+)\.\*\*(?=[ \n]\S)/g)].map(([, part]) => part);
    expect(parts).toEqual(["What it means", "Confirm", "First", "End it"]);
  },
);

test("what runbooks and papers of operations name is registered", () => {
  const folders = [RUNBOOKS, join(ROOT, "docs", "operations")];
  const files = folders.flatMap((folder) => readdirSync(folder).map((name) => join(folder, name)));
  const unknown = files
    .filter((file) => file.endsWith(".md"))
    .flatMap((file) => [...read(file).matchAll(/\bgatehouse_[a-z_]+\b/g)].map(([name]) => name))
    .filter(
      (name) => !isKnown(name) && !/^gatehouse_(?:identity|token|audit|event)(?:_owner|_b)?$/.test(name),
    );
  expect([...new Set(unknown)]).toEqual([]);
});

/** Three or more words between backticks. Those that somebody types begin with a name of `TYPED`. */
const QUOTED = /`([A-Za-z][a-z]*(?: [^`\s]+){2,})`/g;
const TYPED = /^(?:cmctl|curl|delete|gatehouse|kubectl|npm|openssl|psql|select|sum|tail|update|vacuum)\b/;
const OF_POSTGRES = ["no partition of relation"];

/** The last four words of the longest piece without a placeholder. The source may compute the words before them. */
function endOfQuote(quote: string): string {
  const [piece = ""] = quote.split(/…|<[^>]*>/).sort((a, b) => b.length - a.length);
  return piece.trim().split(" ").slice(-4).join(" ");
}

test("what a runbook quotes of a log or an answer is in the source", () => {
  const programs = [
    ...sources,
    read(ROOT, "deploy", "image", "drain-spool.ts"),
    read(ROOT, "deploy", "k8s", "drain-job.ts"),
  ];
  const program = programs.map((text) => text.replaceAll(/^ *(?:\/\/|\/?\*).*$/gm, "")).join("\n");
  const quotes = readdirSync(RUNBOOKS).flatMap((name) =>
    [...read(RUNBOOKS, name).matchAll(QUOTED)]
      .map(([, quote = ""]) => quote)
      .filter((quote) => !TYPED.test(quote) && !OF_POSTGRES.some((text) => quote.startsWith(text)))
      .map((quote) => ({ name, quote })),
  );
  expect(quotes.length).toBeGreaterThan(15);
  expect(quotes.filter(({ quote }) => !program.includes(endOfQuote(quote)))).toEqual([]);
});

describe.each(Object.entries(DASHBOARDS))("dashboard %s", (name, dashboard) => {
  test("is what its description says: run node deploy/monitoring/build.ts", () => {
    expect(JSON.parse(read(MONITORING, "dashboards", `${name}.json`))).toEqual(toGrafana(dashboard));
  });

  test("reads what some process registers, from the data source that is chosen", () => {
    const panels = dashboard.rows.flatMap((row) => row.panels);
    expect(panels.flatMap(({ queries }) => queries.flatMap(([expr]) => unknownIn(expr)))).toEqual([]);
    const text = JSON.stringify(toGrafana(dashboard));
    expect(text).toContain('"type":"datasource"');
    expect(new Set(text.match(/"datasource":\{[^}]*\}/g))).toEqual(
      new Set(['"datasource":{"type":"prometheus","uid":"$datasource"}']),
    );
  });
});

test("dashboards have ids of their own, and there are no other files", () => {
  const uids = Object.values(DASHBOARDS).map(({ uid }) => uid);
  expect(new Set(uids).size).toBe(uids.length);
  expect(readdirSync(join(MONITORING, "dashboards")).sort()).toEqual(
    Object.keys(DASHBOARDS)
      .map((name) => `${name}.json`)
      .sort(),
  );
});

test("the Prometheus Operator gets the rules of the file: run node deploy/monitoring/build.ts", () => {
  expect(parse(read(MONITORING, "prometheus-rule.yaml")).spec).toEqual(
    parse(read(MONITORING, "gatehouse.rules.yaml")),
  );
});

test("every registered metric is seen somewhere: in a rule, a dashboard or a runbook", () => {
  const shown = [
    ...rules.flatMap(({ expr }) => seriesOf(expr)),
    ...Object.values(DASHBOARDS).flatMap(({ rows }) =>
      rows.flatMap(({ panels }) =>
        panels.flatMap(({ queries }) => queries.flatMap(([expr]) => seriesOf(expr))),
      ),
    ),
    ...readdirSync(RUNBOOKS).flatMap((name) => read(RUNBOOKS, name).match(/\bgatehouse_[a-z_]+\b/g) ?? []),
  ];
  const seen = new Set(shown.map((name) => name.replace(/_(?:bucket|count|sum)$/, "")));
  const bases = [...registered].filter((name) => !/_(?:bucket|count|sum)$/.test(name));
  expect(bases.filter((name) => !seen.has(name))).toEqual([]);
});

const RULE_TESTS = ["gatehouse.rules.test.yaml", "gatehouse.rules.days.test.yaml"];
const promtool = spawnSync("promtool", ["--version"]).error === undefined;

test.runIf(promtool)(
  "promtool finds every rule well-formed, and each alert fires when it should",
  () => {
    const promtoolRun = (...argv: string[]) =>
      execFileSync("promtool", argv, { cwd: MONITORING, encoding: "utf8" });
    promtoolRun("check", "config", "prometheus.yaml");
    promtoolRun("test", "rules", ...RULE_TESTS);
  },
  120_000,
);

test("every alert is seen to fire in the rules' own tests", () => {
  const text = RULE_TESTS.map((name) => read(MONITORING, name)).join("\n");
  expect(alerts.map(({ alert }) => alert).filter((name) => !text.includes(`alertname="${name}"`))).toEqual(
    [],
  );
});
