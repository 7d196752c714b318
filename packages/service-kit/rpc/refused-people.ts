import { z } from "zod";
import { readableFileSchema } from "../config/config.ts";
import { watchTextFile } from "../config/watch-text-file.ts";
import { parsedFile, parseYamlFile } from "../config/yaml-file.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { Repetition } from "../telemetry/repeat.ts";
import { PERSON } from "./rpc-tls.ts";

const MAX_PEOPLE = 1_000;
const LOOK_EVERY_MS = 500;

const peopleFile = z.strictObject({
  refused: z
    .array(z.string().regex(PERSON, "must be like operator:ada or auditor:ada, as in the audit log"))
    .max(MAX_PEOPLE),
});

/** @throws {ConfigError} naming every problem with its line and key. */
export function parsePeopleFile(text: string): ReadonlySet<string> {
  return new Set(parseYamlFile(text, peopleFile, "the file of refused people").refused);
}

export interface PeopleFile {
  path: string;
  text: string;
  people: ReadonlySet<string>;
}

export const refusedPeopleConfig = {
  /** YAML: people whose certificates are refused although they are valid. */
  // The file is read again when it changes.
  REFUSED_PEOPLE_FILE: readableFileSchema
    .transform(parsedFile((text, path): PeopleFile => ({ path, text, people: parsePeopleFile(text) })))
    .optional(),
};

export interface RefusedPeople {
  /** @param person as in the audit log: `operator:ada`. */
  has(person: string): boolean;
}

/** Without a file nobody is refused. After an invalid change the names of before stay refused. */
export function watchRefusedPeople(
  file: PeopleFile | undefined,
  { logger, metrics, lookEveryMs }: { logger: Logger; metrics: Metrics; lookEveryMs?: number },
): RefusedPeople & { watch: Repetition | undefined } {
  let refused: ReadonlySet<string> = file?.people ?? new Set();
  const unusable = metrics.gauge(
    "gatehouse_refused_people_file_refused",
    "1 while the file of refused people cannot be used and an earlier one is in force.",
  );
  unusable.set(0);
  const watch =
    file &&
    watchTextFile({
      path: file.path,
      text: file.text,
      what: "file of refused people",
      take: (text) => {
        refused = parsePeopleFile(text);
      },
      onLook: (result) => unusable.set(result === "refused" ? 1 : 0),
      lookEveryMs: lookEveryMs ?? LOOK_EVERY_MS,
      logger,
    });
  return { has: (person) => refused.has(person), watch };
}
