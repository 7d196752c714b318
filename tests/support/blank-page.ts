import { once } from "node:events";
import { createServer, type Server } from "node:http";

/** An application of its own origin, as far as browsers are concerned: an empty page, on 127.0.0.1 and `localhost`. */
export async function serveBlankPage(port: number): Promise<Server> {
  const server = createServer((_request, response) => {
    response.setHeader("content-type", "text/html");
    response.end("<!doctype html><title>app</title>");
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return server;
}
