import { createHash } from "node:crypto";
import { AwsV4Signer } from "aws4fetch";
import { readPrivateFile } from "#kit/config/secret-file.ts";
import { createOutboundHttp, OutboundError } from "#outbound-http/outbound-http.ts";
import { retryAfterMs } from "#outbound-http/retry-after.ts";
import { CollectorProblem, MAX_ASKED_PAUSE_MS } from "./collector.ts";
import type { SegmentPlace } from "./segments.ts";

const TIMEOUT_MS = 60_000;
/** A manifest has some 2 KiB. */
const MAX_ANSWER_BYTES = 64 * 1024;

export interface BucketOptions {
  /** Of the bucket and the prefix, by path. Plain HTTP on loopback only. */
  url: string;
  region: string;
  /** Read for each request, so that new ones need no restart. @throws {Error} */
  credentials(): S3Credentials;
  ca: string | undefined;
  now: () => Date;
}

interface S3Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string;
}

/** Objects of S3, signed by Signature Version 4 with the hash of their content. */
export function openBucket({ url, region, credentials, ca, now }: BucketOptions): SegmentPlace {
  const http = createOutboundHttp({
    network: ["public", "private", "loopback"],
    timeoutMs: TIMEOUT_MS,
    maxBytes: MAX_ANSWER_BYTES,
    ca,
  });
  const send = async (method: "GET" | "PUT", name: string, signal: AbortSignal, body?: Buffer) => {
    const hash = createHash("sha256")
      .update(body ?? "")
      .digest();
    const signer = new AwsV4Signer({
      ...{ method, url: `${url}/${name}`, service: "s3", region, ...credentials() },
      datetime: now()
        .toISOString()
        .replaceAll(/[:-]|\.\d{3}/g, ""),
      headers: {
        "x-amz-content-sha256": hash.toString("hex"),
        // Buckets with Object Lock want it.
        ...(body !== undefined && { "x-amz-checksum-sha256": hash.toString("base64") }),
      },
    });
    const signed = await signer.sign();
    const headers = Object.fromEntries(signed.headers);
    const answer = await http.fetch(signed.url.href, { method, headers, body, signal }).catch((cause) => {
      throw cause instanceof OutboundError ? new CollectorProblem(cause.problem, { cause }) : cause;
    });
    const text = await answer.text();
    return { answer, text };
  };
  return {
    async read(name, signal) {
      const { answer, text } = await send("GET", name, signal);
      // If the whole bucket is missing, the next write says so.
      if (answer.status === 404) return undefined;
      assertOk(answer, text, now());
      return Buffer.from(text);
    },
    async write(name, bytes, signal) {
      const { answer, text } = await send("PUT", name, signal, bytes);
      assertOk(answer, text, now());
    },
    close: () => http.close(),
  };
}

function assertOk(answer: Response, text: string, now: Date): void {
  if (answer.status === 200) return;
  const pauseMs = retryAfterMs(answer, now, MAX_ASKED_PAUSE_MS);
  throw new CollectorProblem(`status ${answer.status} ${s3Code(text)}`.trimEnd(), { pauseMs });
}

/** Of an error response of S3: `SlowDown`. */
function s3Code(text: string): string {
  return /<Code>(\w{1,64})<\/Code>/.exec(text)?.[1] ?? "";
}

/** As in the AWS command line's file of credentials. @throws {Error} without the content of the file. */
export function readCredentials(path: string): S3Credentials {
  const { bytes, problem } = readPrivateFile(path);
  if (problem !== undefined) throw new Error(`${path}: ${problem}`);
  const values = new Map(
    bytes
      .toString("utf8")
      .split(/\r?\n/)
      .flatMap((line) => {
        const [, name = "", value = ""] = /^\s*(aws_\w+)\s*=\s*([\x21-\x7e]+)\s*$/.exec(line) ?? [];
        return name === "" ? [] : [[name, value] as const];
      }),
  );
  const accessKeyId = values.get("aws_access_key_id");
  const secretAccessKey = values.get("aws_secret_access_key");
  const sessionToken = values.get("aws_session_token");
  if (accessKeyId === undefined || secretAccessKey === undefined)
    throw new Error(`${path}: there is no key, or no secret`);
  return { accessKeyId, secretAccessKey, ...(sessionToken !== undefined && { sessionToken }) };
}
