import { z } from "zod";
import { type UserDetails, UserMailState } from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import { idField, timeField } from "../auth/answer-fields.ts";
import { intLike, textLike } from "../routing/fields.ts";

const MAIL_STATES = {
  waiting: UserMailState.WAITING,
  sent: UserMailState.SENT,
  given_up: UserMailState.GIVEN_UP,
  withheld: UserMailState.WITHHELD,
} as const;

const mailState = z.enum(["waiting", "sent", "given_up", "withheld", "unknown"]).meta({
  description:
    "`sent`: the mail server has taken it. `withheld`: it was asked for when the limit of mails was reached. `unknown`: a state " +
    "of a later version.",
});

export const userDetailsAnswer = z
  .strictObject({
    locked: z.boolean().meta({
      description:
        "Logins from unknown devices and networks are refused after failures, whatever the password.",
    }),
    lockedUntil: timeField.nullable().meta({
      description: "Null if not locked, and if only a success, a new password or an unlock opens it.",
    }),
    totpSince: timeField.nullable(),
    passkeys: z.array(
      z.strictObject({
        id: idField,
        name: textLike("Phone"),
        createdAt: timeField,
        lastUsedAt: timeField.nullable(),
      }),
    ),
    recoveryCodesLeft: intLike(10),
    providers: z.array(z.strictObject({ provider: textLike("demo"), linkedAt: timeField })),
    trustedDevices: intLike(1, "How many."),
    mails: z
      .array(
        z.strictObject({
          template: textLike("verify-email"),
          createdAt: timeField,
          state: mailState,
          endedAt: timeField.nullable(),
          attempts: intLike(1),
        }),
      )
      .meta({ description: "Of the last 30 days, newest first, at most 50; never their content." }),
  })
  .meta({ id: "UserDetails", description: "For whoever helps the user." });

export function toUserDetails(message: UserDetails): z.output<typeof userDetailsAnswer> {
  const { locked, recoveryCodesLeft, trustedDevices } = message;
  return {
    locked,
    lockedUntil: timeOf(message.lockedUntil),
    totpSince: timeOf(message.totpSince),
    passkeys: message.passkeys.map(({ id, name, createdAt, lastUsedAt }) => ({
      id,
      name,
      createdAt: requiredTime(createdAt),
      lastUsedAt: timeOf(lastUsedAt),
    })),
    recoveryCodesLeft,
    providers: message.providers.map(({ provider, linkedAt }) => ({
      provider,
      linkedAt: requiredTime(linkedAt),
    })),
    trustedDevices,
    mails: message.mails.map(({ template, createdAt, state, endedAt, attempts }) => ({
      template,
      createdAt: requiredTime(createdAt),
      state: mailState.options.find((name) => name !== "unknown" && MAIL_STATES[name] === state) ?? "unknown",
      endedAt: timeOf(endedAt),
      attempts,
    })),
  };
}

function timeOf(time: Date | undefined): string | null {
  return time?.toISOString() ?? null;
}

function requiredTime(time: Date | undefined): string {
  if (time === undefined) throw new Error("identity-service sent details without a time");
  return time.toISOString();
}
