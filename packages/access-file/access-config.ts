import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { ConfigError, readableFileSchema } from "#kit/config/config.ts";
import { parseAccessFile } from "./access-file.ts";

/** With the roles of Gatehouse itself. */
export const SHIPPED_ACCESS_FILE = join(import.meta.dirname, "access.yaml");

export const accessConfig = {
  /** YAML: roles, their permissions and sessions. */
  // The file is read again when it changes.
  ACCESS_FILE: readableFileSchema.default(SHIPPED_ACCESS_FILE).transform((path, context) => {
    const text = readFileSync(path, "utf8");
    try {
      return { path, text, access: parseAccessFile(text) };
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      context.addIssue({ code: "custom", message: error.message });
      return z.NEVER;
    }
  }),
};
