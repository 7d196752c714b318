import { z } from "zod";
import { isRoleName, ROLE_NAME } from "#kit/values/access-names.ts";
import type { User } from "#proto/gatehouse/identity/v1/user.ts";
import { intLike, optional, textLike } from "../routing/fields.ts";
import { requestOptionsAnswer } from "./passkey-fields.ts";

const ID = "0199a000-0000-7000-8000-000000000001";

export const idField = z.uuid().meta({ examples: [ID] });
/** RFC 3339, UTC. */
export const timeField = z.iso.datetime().meta({ id: "Time", examples: ["2026-01-02T03:04:05.678Z"] });
export const roleField = z
  .string()
  .regex(ROLE_NAME)
  .meta({ examples: ["USER"] });
export const statusField = z.enum(["active", "disabled"]);
/** Null on the last page. */
export const nextCursorField = z
  .string()
  .nullable()
  .meta({ id: "NextCursor", description: "For the next page; null on the last one.", examples: [null] });

const userFields = {
  id: idField,
  email: textLike("ada@example.com"),
  firstName: textLike("Ada"),
  lastName: textLike("Lovelace", "Empty for a person with one name."),
  role: roleField,
  emailVerified: z.boolean(),
  mfaEnabled: z.boolean(),
  createdAt: timeField,
  language: textLike("de-AT", "Of mails. Empty: nobody has said."),
  timeZone: textLike("Europe/Vienna", "Of times in mails."),
};

export const userAnswer = z.strictObject(userFields).meta({ id: "User" });
export const accountAnswer = z.strictObject({ user: userAnswer });

/** @throws without a user, or for an unknown role. */
export function toUser(message: User | undefined): z.output<typeof userAnswer> {
  if (message?.createdAt === undefined || !isRoleName(message.role)) {
    throw new Error("identity-service sent a user that this gateway cannot read");
  }
  const { role, id, email, firstName, lastName, emailVerified, mfaEnabled, language, timeZone } = message;
  const createdAt = message.createdAt.toISOString();
  return { id, email, firstName, lastName, role, emailVerified, mfaEnabled, createdAt, language, timeZone };
}

export const managedUserAnswer = z
  .strictObject({
    ...userFields,
    status: statusField,
    mustChangePassword: z.boolean(),
    lastLoginAt: timeField.nullable(),
  })
  .meta({ id: "ManagedUser", description: "A user as administrators see one." });

const jwt = textLike("eyJhbGciOiJFZERTQSJ9.e30.AA", "A JWT; see RFC 9068.");

export const tokenFields = {
  accessToken: jwt,
  refreshToken: optional(
    textLike("eyJhbGciOiJFZERTQSJ9.e30.AA", "A JWT. Absent in a browser session, which has it in a cookie."),
  ),
  tokenType: z.enum(["Bearer", "DPoP"]).meta({
    description:
      "How to send the access token. `DPoP`: with a proof of the key that both tokens are bound to.",
  }),
  expiresIn: intLike(900, "Of the access token, in seconds."),
};

const tempTokenField = textLike(
  "cLKkYhN0m0bLw9vJk0cJX2mR8c5ZyS1tqv7bq3Q9d5E",
  "Opaque; good for five minutes, five tries and one success. Never an access token.",
);

const completedFields = { ...tokenFields, user: userAnswer };

const completedAnswer = z
  .strictObject(completedFields)
  .meta({ id: "CompletedLogin", description: "A session has begun." });

const passwordChangeAnswer = z
  .strictObject({ requirePasswordChange: z.literal(true), tempToken: tempTokenField })
  .meta({ id: "PasswordChangeRequired", description: "Go on with `POST /auth/login/change-password`." });

const mfaAnswer = z
  .strictObject({
    requireMfa: z.literal(true),
    tempToken: tempTokenField,
    methods: z
      .array(textLike("totp"))
      .meta({ description: "What the user can prove: `passkey`, `totp`, `recovery_code`." }),
    passkey: requestOptionsAnswer.optional(),
    trustDeviceDays: optional(
      intLike(30, "For how many days `trustDevice: true` spares the code. Absent: not at all."),
    ),
  })
  .meta({ id: "MfaRequired", description: "Go on with `POST /auth/mfa/verify`." });

const enrollmentTokenField = textLike(
  "cLKkYhN0m0bLw9vJk0cJX2mR8c5ZyS1tqv7bq3Q9d5E",
  "Opaque; good for 15 minutes, ten tries and one success. Never an access token.",
);

const enrollmentRequiredAnswer = z
  .strictObject({
    requireMfaEnrollment: z.literal(true),
    tempToken: enrollmentTokenField,
    methods: z.array(textLike("totp")),
  })
  .meta({
    id: "MfaEnrollmentRequired",
    description:
      "The user's role requires a second factor. Go on with `POST /auth/mfa/setup` or `POST /auth/passkeys/options`.",
  });

/** A later step never returns to an earlier one. */
export const loginAnswers = {
  afterPassword: z.union([completedAnswer, mfaAnswer, passwordChangeAnswer, enrollmentRequiredAnswer]),
  afterProvider: z.union([completedAnswer, mfaAnswer, enrollmentRequiredAnswer]),
  afterPasskey: completedAnswer,
  afterCode: z.union([completedAnswer, passwordChangeAnswer]),
  afterPasswordChange: z.union([completedAnswer, enrollmentRequiredAnswer]),
};

export const recoveryCodesField = z.array(textLike("4kzq-8m2p-xw7c")).meta({
  description: "Ten, each good once, and shown only here. None if the user had a second factor before.",
});

export const enrolledFields = { ...completedFields, recoveryCodes: recoveryCodesField };

/** Returned by `POST /auth/mfa/enable`. */
export const enrolledLoginAnswer = z
  .strictObject(enrolledFields)
  .meta({ id: "EnrolledLogin", description: "A session has begun, with a new second factor." });

const SESSION_COOKIE =
  "With `Gatehouse-Client: browser` `__Host-gatehouse-refresh`: the refresh token, and `__Host-gatehouse-refresh-hint`.";

export const sessionCookieHeader = { "Set-Cookie": SESSION_COOKIE };

export const loginHeaders = {
  "Set-Cookie": `\`gatehouse_device\`: the device is known at the next login. Alone it opens nothing. ${SESSION_COOKIE} A session whose cookie it replaces has ended.`,
  "Gatehouse-Device": "The same in place of the cookie, for a client that sent this header.",
};

/** For steps of a login, and requests for mails. */
export const deviceHeader = {
  "Gatehouse-Device":
    "For clients without cookies: the value that the last login answered in this header, or `new`. A known device gets " +
    "in while strangers guess at the account, or use up what strangers share.",
};
