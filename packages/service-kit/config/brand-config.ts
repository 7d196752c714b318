import { z } from "zod";

/** Also for headers of mails and for authenticator apps, which end an issuer at a colon. */
export const brandNameSchema = z
  .string()
  .regex(
    /^[\p{L}\p{N}][\p{L}\p{N} &.,'’!+_-]{0,63}$/u,
    "must be 1 to 64 letters, digits, spaces and &.,'’!+_-, a letter or digit first",
  );

const MAX_URL_CHARACTERS = 500;

/** Escaped as a browser would. */
export const linkSchema = (protocol: RegExp) => z.url({ protocol, normalize: true }).max(MAX_URL_CHARACTERS);

/** What people see of the operator. The same in every service that has it. */
export const brandConfig = {
  BRAND_NAME: brandNameSchema.default("Gatehouse"),
};
