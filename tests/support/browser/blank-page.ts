import { once } from "node:events";
import { createServer, type Server } from "node:http";

/**
 * An application of its own origin, as far as browsers are concerned: an empty page, on 127.0.0.1 and `localhost`.
 * @param script served as `/client.js`.
 */
export async function serveBlankPage(port: number, script = ""): Promise<Server> {
  const server = createServer(({ url }, response) => {
    const isScript = url === "/client.js";
    response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
    response.end(isScript ? script : "<!doctype html><title>app</title>");
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return server;
}
