import type { AddressInfo } from "node:net";
import { createServer, type Server, type Socket } from "node:net";
import { CHECK_OF_TYPES } from "#kit/database/connection-pool.ts";

/** What the client has sent: the text of a statement, or `start` and `terminate`. */
export interface FakeMessage {
  text: string;
  /** Number of the connection it came by, from 0. */
  connection: number;
  socket: Socket;
}

/** To a statement: no rows (undefined), none at all, or that the role may not do this. */
type FakeAnswer = "nothing" | "denied" | undefined;

/** A server that speaks as much of PostgreSQL's protocol as the driver needs, and fails when a test wants it to. */
export interface FakePostgres {
  url: string;
  port: number;
  /** Everything that was received, in its order. */
  received: FakeMessage[];
  sockets: Set<Socket>;
  /** New sessions get this answer. */
  isStandby: boolean;
  /** Of new sessions: whether the driver has learnt the types, so that it reads arrays as such. */
  knowsTypes: boolean;
  /** Which session gets a connection's statement. Its own, unless a test stands for a pooler. */
  sessionOf: (connection: number) => number;
  /** Of the server that a connection reaches. */
  startOf: (connection: number) => string;
  close(): void;
}

/**
 * @param answer called for each statement.
 * @param wantedPort any free one if it is 0.
 */
export async function startFakePostgres(
  answer: (message: FakeMessage) => FakeAnswer = () => undefined,
  wantedPort = 0,
): Promise<FakePostgres> {
  const received: FakeMessage[] = [];
  const sockets = new Set<Socket>();
  let connections = 0;
  const fake: Pick<FakePostgres, "isStandby" | "knowsTypes" | "sessionOf" | "startOf"> = {
    isStandby: false,
    knowsTypes: true,
    sessionOf: (connection) => connection,
    startOf: () => "1",
  };
  const holders = new Map<string, number>();
  const server: Server = createServer((socket) => {
    const connection = connections++;
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("close", () => sockets.delete(socket));
    const hear = (text: string) => {
      const message = { text, connection, socket };
      received.push(message);
      return answer(message);
    };
    const lock = (key: string) => {
      const session = fake.sessionOf(connection);
      const holder = holders.get(key) ?? session;
      holders.set(key, holder);
      return { isLocked: holder === session, server: fake.startOf(connection) };
    };
    serveConnection(socket, { hear, lock, fake });
  });
  await new Promise<void>((resolve) => server.listen(wantedPort, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return Object.assign(fake, {
    url: `postgres://anybody@127.0.0.1:${port}/any`,
    port,
    received,
    sockets,
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  });
}

function serveConnection(
  socket: Socket,
  {
    hear,
    lock,
    fake,
  }: {
    hear: (text: string) => FakeAnswer;
    lock: (key: string) => { isLocked: boolean; server: string };
    fake: Pick<FakePostgres, "isStandby" | "knowsTypes">;
  },
): void {
  let pending = Buffer.alloc(0);
  let isStarted = false;
  let statement = "";
  let state = "I";
  const run = (text: string) => {
    // Each session begins with it. No row is no objection.
    if (text === CHECK_OF_TYPES) return true;
    const answer = hear(text);
    if (answer === "denied") socket.write(Buffer.concat([DENIED, message("Z", state)]));
    if (answer !== undefined) return false;
    if (/^begin/.test(text)) state = "T";
    if (/^(commit|rollback)$/.test(text.trim())) state = "I";
    return true;
  };
  const done = (text: string) =>
    Buffer.concat([message("C", `${(text.split(" ")[0] ?? "").toUpperCase()}\0`), message("Z", state)]);
  socket.on("data", (chunk) => {
    pending = Buffer.concat([pending, chunk]);
    for (;;) {
      const header = isStarted ? 1 : 0;
      if (pending.length < header + 4) return;
      const length = header + pending.readUInt32BE(header);
      if (pending.length < length) return;
      const type = isStarted ? String.fromCharCode(pending[0] ?? 0) : "start";
      const body = pending.subarray(header + 4, length);
      pending = pending.subarray(length);
      if (type === "start") {
        isStarted = true;
        if (hear("start") === "nothing") continue;
        const admitted = [
          message("R", "\0\0\0\0"),
          message("S", "server_version\0" + "18\0"),
          message("S", `in_hot_standby\0${fake.isStandby ? "on" : "off"}\0`),
          message("Z", "I"),
        ];
        socket.write(Buffer.concat(admitted));
      } else if (type === "Q") {
        const text = body.subarray(0, -1).toString();
        if (!run(text)) continue;
        if (text === CHECK_OF_TYPES && !fake.knowsTypes) socket.write(Buffer.concat(rowOf({ known: "{}" })));
        const [, key] = /pg_try_advisory_lock\((-?\d+)\)/.exec(text) ?? [];
        socket.write(Buffer.concat([...(key === undefined ? [] : rowOf(lock(key))), done(text)]));
      } else if (type === "P") {
        statement = body.toString().split("\0")[1] ?? "";
      } else if (type === "E") {
        if (run(statement)) {
          const parsed = [message("1", ""), message("t", "\0\0"), message("n", ""), message("2", "")];
          socket.write(Buffer.concat([...parsed, done(statement)]));
        }
      } else if (type === "X") hear("terminate");
    }
  });
}

/** The late answer to a simple statement that was answered with "nothing". */
export const SELECTED = Buffer.concat([message("C", "SELECT\0"), message("Z", "I")]);
const DENIED = message("E", "SERROR\0C42501\0Mpermission denied\0\0");

const TYPE_IDS = { boolean: 16, string: 25 };

/** Its description, and its data as text. */
function rowOf(row: Record<string, boolean | string>): Buffer[] {
  const number = (bytes: number, value: number) => {
    const buffer = Buffer.alloc(bytes);
    buffer.writeUIntBE(value, 0, bytes);
    return buffer.toString("latin1");
  };
  const columns = Object.entries(row).map(([name, value]) => {
    const type = TYPE_IDS[typeof value as keyof typeof TYPE_IDS];
    return `${name}\0${number(6, 0)}${number(4, type)}${number(6, 0)}${number(2, 0)}`;
  });
  const values = Object.values(row).map((value) => (typeof value === "string" ? value : value ? "t" : "f"));
  return [
    message("T", number(2, columns.length) + columns.join("")),
    message("D", number(2, values.length) + values.map((text) => number(4, text.length) + text).join("")),
  ];
}

function message(type: string, body: string): Buffer {
  const head = Buffer.from(`${type}....`, "latin1");
  head.writeUInt32BE(4 + body.length, 1);
  return Buffer.concat([head, Buffer.from(body, "latin1")]);
}
