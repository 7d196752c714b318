import { z } from "zod";
import { type Answer, describeRoutes, HTML_TYPE, JSON_TYPE } from "./route-docs.ts";

const headers = {
  ETag: "Its version; `If-None-Match` asks for another one.",
  "Cache-Control": "How long it may be kept.",
};
const unchanged: Answer = { description: "It is still what the client has.", headers };

export const openApiDocs = describeRoutes("This document", {
  getOpenApiDocument: {
    summary: "The API as an OpenAPI 3.1 document",
    answers: {
      200: {
        description: "This document.",
        content: { [JSON_TYPE]: z.looseObject({ openapi: z.string().meta({ examples: ["3.1.1"] }) }) },
        headers,
      },
      304: unchanged,
    },
  },
  getDocumentationPage: {
    summary: "The API as a page for people",
    answers: {
      200: {
        description: "A page.",
        content: { [HTML_TYPE]: z.string().meta({ examples: ["<!doctype html>"] }) },
        headers,
      },
      304: unchanged,
    },
  },
});
