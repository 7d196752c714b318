import { z } from "zod";
import { CACHE_HEADERS, describeRoutes, HTML_TYPE, JSON_TYPE, UNCHANGED } from "../routing/route-docs.ts";

export const openApiDocs = describeRoutes("This document", {
  getOpenApiDocument: {
    summary: "The API as an OpenAPI 3.1 document",
    answers: {
      200: {
        description: "This document.",
        content: { [JSON_TYPE]: z.looseObject({ openapi: z.string().meta({ examples: ["3.1.1"] }) }) },
        headers: CACHE_HEADERS,
      },
      304: UNCHANGED,
    },
  },
  getDocumentationPage: {
    summary: "The API as a page for people",
    answers: {
      200: {
        description: "A page.",
        content: { [HTML_TYPE]: z.string().meta({ examples: ["<!doctype html>"] }) },
        headers: CACHE_HEADERS,
      },
      304: UNCHANGED,
    },
  },
});
