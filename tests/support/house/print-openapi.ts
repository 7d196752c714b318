import { answeringGateway } from "#gateway/testing/answering-gateway.ts";

// Prints the OpenAPI document of the present sources.
const { app, document } = answeringGateway();
process.stdout.write(`${JSON.stringify(await document())}\n`);
await app.close();
