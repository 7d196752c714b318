import { addAbortSignal, Readable } from "node:stream";
import { stringify } from "csv-stringify/sync";
import type { FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { ENTRY_COLUMNS } from "#audit-client/stream/audit-entry.ts";
import { filterText } from "#audit-client/stream/record-reading.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { Backends } from "../backends/backends.ts";
import type { NoteReading } from "../edge/audit.ts";
import { breakOff } from "../edge/http-server.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import {
  callersOf,
  type ExchangeCall,
  exchangeCallOf,
  type OpenExchange,
  type OpenExchanges,
} from "../proxy/open-exchanges.ts";
import { textLike } from "../routing/fields.ts";
import type { AdminPolicy } from "../routing/route-policy.ts";
import { pageQuery } from "./admin-fields.ts";
import { type auditEntryAnswer, toAuditEntry } from "./audit-entry-answer.ts";
import { auditFilterFields, auditTimeField, toEntryFilter } from "./audit-query-fields.ts";

type AuditEntry = z.output<typeof auditEntryAnswer>;

const MAX_ENTRIES = 10_000;
const PAGE = 100;
/** Each page is a search of its own. */
const PAGE_BUDGET_MS = 5_000;
const TOTAL_MS = 60_000;
const MAX_OPEN = 4;
const RETRY_AFTER_MS = 5_000;

const FORMATS = { ndjson: "application/x-ndjson", csv: "text/csv" } as const;

const ExportQuery = z.strictObject({
  ...auditFilterFields,
  requestId: z.uuid().toLowerCase().optional(),
  from: auditTimeField.optional(),
  to: auditTimeField.optional(),
  cursor: pageQuery.cursor,
  format: z.enum(["ndjson", "csv"]).default("ndjson"),
});

interface ExportDeps extends Pick<Backends, "auditQuery"> {
  noteReading: NoteReading;
  adminPolicy: AdminPolicy;
  exchanges: OpenExchanges;
}

export function registerAuditExportRoutes(
  app: GatewayApp,
  { auditQuery, noteReading, adminPolicy, exchanges }: ExportDeps,
): void {
  const route = routeIn(app, "Audit log");
  let openExports = 0;

  route("exportAuditLog", "GET", "/admin/audit/export", {
    summary: "Export what a search finds",
    description:
      `Up to ${MAX_ENTRIES} entries, newest first, streamed. Each line of \`ndjson\` is an entry; the last one is ` +
      '`{"end":{"entries":…,"complete":…}}`, and `complete` is false if there are more: go on with `cursor` = its `nextCursor`. Without it, and in CSV if the connection breaks, ' +
      `the export is not whole. It breaks off when its token expires, or its session, role or permission ends. One at a time for a caller, ${MAX_OPEN} at a gateway, for at most a minute. Not proven: ` +
      "`gatehouse audit export` is. Each call leaves one entry, `audit.exported`, with its filter.",
    policy: adminPolicy("audit:read"),
    schema: { querystring: ExportQuery },
    answers: {
      200: {
        description: "The entries.",
        content: {
          [FORMATS.ndjson]: textLike('{"end":{"entries":0,"complete":true}}\n'),
          [FORMATS.csv]: textLike("sequence,id\n"),
        },
      },
    },
    codes: ["audit_unavailable"],
    handler: async (request, reply) => {
      const { format, requestId = "", from, to, cursor: begin = "", ...filter } = request.query;
      const announced = () =>
        reply
          .type(`${FORMATS[format]}; charset=utf-8`)
          .header("content-disposition", `attachment; filename="audit.${format}"`);
      // Else the framework would read the whole export to send none of it.
      if (request.method === "HEAD") return announced().send("");
      if (openExports >= MAX_OPEN)
        throw new DomainError("too_many_requests", undefined, { retryAfterMs: RETRY_AFTER_MS });
      const exchange = new AuditExport(request, reply);
      exchanges.enter(exchange, { kind: "audit export", callers: callersOf(request), max: 1 });
      openExports += 1;
      const close = () => {
        if (exchange.place !== undefined) openExports -= 1;
        exchanges.leave(exchange);
      };
      try {
        await noteReading(request, {
          action: "audit.exported",
          filter: filterText({ ...filter, request: requestId, from, to, format }),
        });
        const wanted = { ...toEntryFilter(filter), requestId, from, to, limit: PAGE };
        const search = (cursor: string) =>
          auditQuery.searchEntries(
            { ...wanted, cursor },
            { ...request.state.call, deadlineMs: Date.now() + PAGE_BUDGET_MS },
          );
        // Before the headers, so that a failure still has a status.
        const first = await search(begin);
        if (exchange.failure !== undefined) throw exchange.failure;
        const pages = allPages(first, search);
        const body = Readable.from(format === "csv" ? csvOf(pages) : linesOf(pages), { objectMode: false });
        addAbortSignal(AbortSignal.timeout(TOTAL_MS), body);
        body.once("close", close).once("end", close);
        return announced().send(body);
      } catch (error) {
        close();
        throw error;
      }
    },
  });
}

/** Ends with its token, as forwarded calls do. */
class AuditExport implements OpenExchange {
  readonly call: ExchangeCall;
  /** Like a call that waits for its answer, it may outlive its token for some seconds. */
  readonly isWaiting = true;
  /** Its body ends with the connection. */
  readonly isGone = false;
  place: OpenExchange["place"] = undefined;
  /** Before the answer has begun. */
  failure: DomainError | undefined;
  readonly #reply: FastifyReply;

  constructor(request: FastifyRequest, reply: FastifyReply) {
    this.call = exchangeCallOf(request);
    this.#reply = reply;
  }

  abandon(): void {}

  fail(error: DomainError): void {
    this.failure = error;
    // The end of the body would wait for the page that is being searched.
    if (this.#reply.raw.headersSent) breakOff(this.#reply.raw);
  }
}

interface Page {
  entries: AuditEntry[];
  /** Empty if the search ends with it. */
  nextCursor: string;
}

type Found = Awaited<ReturnType<Backends["auditQuery"]["searchEntries"]>>;

async function* allPages(first: Found, next: (cursor: string) => Promise<Found>): AsyncGenerator<Page> {
  let left = MAX_ENTRIES;
  for (let page = first; ; page = await next(page.nextCursor)) {
    left -= page.entries.length;
    const { nextCursor } = page;
    yield { entries: page.entries.map(toAuditEntry), nextCursor };
    if (nextCursor === "" || left <= 0) return;
  }
}

async function* linesOf(pages: AsyncIterable<Page>): AsyncGenerator<string> {
  let [entries, nextCursor] = [0, ""];
  for await (const page of pages) {
    entries += page.entries.length;
    nextCursor = page.nextCursor;
    if (page.entries.length > 0) yield page.entries.map((entry) => `${JSON.stringify(entry)}\n`).join("");
  }
  yield `${JSON.stringify({ end: { entries, complete: nextCursor === "", ...(nextCursor && { nextCursor }) } })}\n`;
}

/** RFC 4180. An apostrophe precedes texts that spreadsheets would run as formulas. */
async function* csvOf(pages: AsyncIterable<Page>): AsyncGenerator<string> {
  yield stringify([ENTRY_COLUMNS]);
  for await (const { entries } of pages) {
    const records = entries.map(({ actor, ...entry }) => ({ ...entry, ...actor }));
    if (records.length > 0) yield stringify(records, { columns: ENTRY_COLUMNS, escape_formulas: true });
  }
}
