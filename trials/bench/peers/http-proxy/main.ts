/** @fastify/http-proxy as it comes, without log and checks: `node trials/bench/peers/http-proxy/main.ts <port> <upstream port>`. */
import httpProxy from "@fastify/http-proxy";
import fastify from "fastify";

const [port, upstreamPort] = process.argv.slice(2);
const app = fastify();
await app.register(httpProxy, { upstream: `http://127.0.0.1:${upstreamPort}` });
await app.listen({ port: Number(port), host: "127.0.0.1" });
