import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { Metadata, status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { DomainError, ERROR_CATALOGUE, type ErrorCode } from "../values/errors.ts";
import { fromRpcError, toRpcError } from "./rpc-errors.ts";

const codes = Object.keys(ERROR_CATALOGUE) as ErrorCode[];

test.each(codes)("%s survives the wire", (code) => {
  const decoded = fromRpcError(toRpcError(new DomainError(code, "said é")));
  expect(decoded).toMatchObject({ code, message: "said é", fields: [], retryAfterMs: undefined });
});

test("failing fields and the time to wait survive the wire", () => {
  const fields = [
    { field: "email", code: "invalid_format", message: "no @" },
    { field: "name", code: "required", message: "" },
  ];
  const decoded = fromRpcError(
    toRpcError(new DomainError("validation_failed", "no", { fields, retryAfterMs: 61_250 })),
  );
  expect(decoded).toMatchObject({ code: "validation_failed", fields, retryAfterMs: 61_250 });
});

test("the limit of an exhausted budget survives the wire", () => {
  const decoded = fromRpcError(
    toRpcError(new DomainError("too_many_requests", undefined, { retryAfterMs: 9_000, limit: 100 })),
  );
  expect(decoded).toMatchObject({ code: "too_many_requests", retryAfterMs: 9_000, limit: 100 });
});

test("of an unexpected error nothing leaves the process", () => {
  const encoded = toRpcError(new Error("select * from users"));
  expect(encoded).toEqual({ code: status.INTERNAL, details: "internal error" });
  expect(fromRpcError(encoded)).toMatchObject({ code: "internal_error" });
});

test.each([
  [status.UNAVAILABLE, "service_unavailable"],
  [status.DEADLINE_EXCEEDED, "service_unavailable"],
  [status.CANCELLED, "service_unavailable"],
  [status.UNAUTHENTICATED, "service_unavailable"],
  [status.INTERNAL, "internal_error"],
  [status.UNIMPLEMENTED, "internal_error"],
] as const)("a bare gRPC status %i is %s", (code, expected) => {
  expect(fromRpcError({ code, details: "x", metadata: new Metadata() })).toMatchObject({ code: expected });
});

test.each([
  ["not protobuf", Buffer.from([0xff, 0xff, 0xff])],
  ["empty", Buffer.alloc(0)],
  ["a varint where a message should be", Buffer.from([0x18, 0x01])],
])("details that are %s are ignored", (_name, details) => {
  const metadata = new Metadata();
  metadata.set("grpc-status-details-bin", details);
  expect(fromRpcError({ code: status.UNAVAILABLE, metadata })).toMatchObject({ code: "service_unavailable" });
});

test("an unknown code is ignored", () => {
  const encoded = toRpcError(new DomainError("conflict"));
  const bytes = encoded.metadata?.get("grpc-status-details-bin")[0] as Buffer;
  const metadata = new Metadata();
  metadata.set(
    "grpc-status-details-bin",
    Buffer.from(bytes.toString("latin1").replaceAll("conflict", "conflicT"), "latin1"),
  );
  expect(fromRpcError({ code: status.FAILED_PRECONDITION, metadata })).toMatchObject({
    code: "service_unavailable",
  });
});

test("a call whose stream was reset is unavailable, and not the peer's defect", () => {
  const reset = { code: status.INTERNAL, details: "Received RST_STREAM with code 2 (Internal server error)" };
  expect(fromRpcError(reset).code).toBe("service_unavailable");
  expect(fromRpcError({ code: status.INTERNAL, details: "internal error" }).code).toBe("internal_error");
});

/** An error's encoded details with a part replaced by text of the same length. */
function changed(error: DomainError, from: string, to: string) {
  const encoded = toRpcError(error);
  const bytes = encoded.metadata?.get("grpc-status-details-bin")[0] as Buffer;
  const metadata = new Metadata();
  const text = bytes.toString("latin1").replaceAll(from, to);
  metadata.set("grpc-status-details-bin", Buffer.from(text, "latin1"));
  return fromRpcError({ code: status.FAILED_PRECONDITION, metadata });
}

test.each([
  ["another domain", "gatehouse", "gatehousX"],
  ["another type of details", "rpc.ErrorInfo", "rpc.ErrorInfX"],
])("a code of %s is no code of ours", (_what, from, to) => {
  expect(changed(new DomainError("conflict"), from, to).code).toBe("service_unavailable");
});

test.each([
  [999_999_999, 999_999_999],
  [1_234_567_890, undefined],
])("a limit of %i is sent as %j", (limit, expected) => {
  expect(fromRpcError(toRpcError(new DomainError("too_many_requests", undefined, { limit }))).limit).toBe(
    expected,
  );
});

test("other facts beside a code are no limit", () => {
  const error = new DomainError("too_many_requests", undefined, { limit: 100 });
  expect(changed(error, "quota_limit_value", "quota_limit_valuX")).toMatchObject({
    code: "too_many_requests",
    limit: undefined,
  });
});

test.each([0, 1, 999, 1_000, 3_599_999])(
  "a retry delay of %i ms is sent to the millisecond",
  (retryAfterMs) => {
    const error = new DomainError("too_many_requests", undefined, { retryAfterMs });
    expect(fromRpcError(toRpcError(error)).retryAfterMs).toBe(retryAfterMs);
  },
);

test("an error that is decoded already stays itself, and another is kept as the cause", () => {
  const decoded = new DomainError("conflict");
  expect(fromRpcError(decoded)).toBe(decoded);
  const failure = { code: status.UNAVAILABLE };
  expect(fromRpcError(failure).cause).toBe(failure);
});

/** The bytes of `grpc-status-details-bin` as text. */
function wireOf(error: DomainError): string {
  const bytes = toRpcError(error).metadata?.get("grpc-status-details-bin")[0] as Buffer;
  return bytes.toString("latin1");
}

test("details have the types that others know, and only those that there is something to say of", () => {
  const fields = [{ field: "email", code: "required", message: "" }];
  const all = wireOf(new DomainError("too_many_requests", "no", { fields, retryAfterMs: 5, limit: 7 }));
  for (const type of ["ErrorInfo", "BadRequest", "RetryInfo"]) {
    expect(all).toContain(`type.googleapis.com/google.rpc.${type}`);
  }
  expect(all).toContain("quota_limit_value");
  const plain = wireOf(new DomainError("conflict"));
  expect(plain).toContain("type.googleapis.com/google.rpc.ErrorInfo");
  expect(plain).not.toMatch(/BadRequest|RetryInfo|quota_limit_value/);
});

/** A status of another version of ours: with its details, and with fields that this version does not know. */
function statusWith(message: string | undefined, ...details: [type: string, value: Uint8Array][]): Buffer {
  const writer = new BinaryWriter();
  if (message !== undefined) writer.tag(2, WireType.LengthDelimited).string(message);
  for (const [type, value] of details) {
    const detail = new BinaryWriter().tag(1, WireType.LengthDelimited).string(`type.googleapis.com/${type}`);
    writer
      .tag(3, WireType.LengthDelimited)
      .bytes(detail.tag(2, WireType.LengthDelimited).bytes(value).finish());
  }
  writer.tag(14, WireType.Bit64).fixed64(1).tag(15, WireType.Bit32).fixed32(1);
  return Buffer.from(writer.finish());
}

function decoded(details: Buffer) {
  const metadata = new Metadata();
  metadata.set("grpc-status-details-bin", details);
  return fromRpcError({ code: status.FAILED_PRECONDITION, metadata });
}

test("unknown fields are skipped, and missing ones are empty", () => {
  const text = (writer: BinaryWriter, number: number, value: string) =>
    writer.tag(number, WireType.LengthDelimited).string(value);
  const info = text(text(new BinaryWriter(), 1, "conflict"), 2, "gatehouse").finish();
  const violation = text(new BinaryWriter(), 1, "email").finish();
  const request = new BinaryWriter().tag(1, WireType.LengthDelimited).bytes(violation).finish();
  const error = decoded(
    statusWith(
      undefined,
      ["google.rpc.ErrorInfo", info],
      ["google.rpc.BadRequest", request],
      ["google.rpc.RetryInfo", new Uint8Array()],
    ),
  );
  expect(error).toMatchObject({
    code: "conflict",
    message: "",
    retryAfterMs: undefined,
    fields: [{ field: "email", message: "", code: "" }],
  });
  expect(decoded(statusWith("no code", ["google.rpc.BadRequest", request])).code).toBe("service_unavailable");
});

test("a failure without details is classified by its status", () => {
  expect(fromRpcError({ code: status.INTERNAL }).code).toBe("internal_error");
  expect(fromRpcError({}).code).toBe("service_unavailable");
});

test("the demand of a step-up survives the wire, and details of other errors do not leave the process", () => {
  const demand = { acr: 2, maxAgeSeconds: 300, methods: ["passkey", "totp"] } as const;
  const stepUp = new DomainError("step_up_required", undefined, { details: demand });
  expect(fromRpcError(toRpcError(stepUp)).details).toEqual(demand);
  const bare = fromRpcError(toRpcError(new DomainError("step_up_required")));
  expect([bare.code, bare.details]).toEqual(["step_up_required", undefined]);
  expect(wireOf(new DomainError("conflict", undefined, { details: demand }))).not.toContain("passkey");
  expect(changed(stepUp, '"acr":2', '"acr":9').code).toBe("service_unavailable");
});
