// Codes of the capacity service in words; a code that this page does not know keeps its own name.
import type { TFunction } from "i18next";
import type { Offering } from "../../api/capacity";
import { capacity } from "../../locales/capacity.en";

function word<T extends object>(words: T, code: string): keyof T | null {
  return Object.hasOwn(words, code) ? (code as keyof T) : null;
}

export function reasonText(t: TFunction, code: string): string {
  const known = word(capacity.reasons, code);
  return known ? t(`capacity.reasons.${known}`) : code;
}

export function whyNotText(t: TFunction, code: string): string {
  const known = word(capacity.whyNot, code);
  return known ? t(`capacity.whyNot.${known}`) : code;
}

export function constraintText(t: TFunction, code: string): string {
  const known = word(capacity.pending.constraints, code);
  return known ? t(`capacity.pending.constraints.${known}`) : code;
}

export function heldText(t: TFunction, code: string): string {
  const known = word(capacity.plan.held, code);
  return known ? t(`capacity.plan.held.${known}`) : code;
}

export function stepText(t: TFunction, code: string): string {
  const known = word(capacity.plan.steps, code);
  return known ? t(`capacity.plan.steps.${known}`) : code;
}

export function optionText(t: TFunction, code: string): string {
  const known = word(capacity.plan.option, code);
  return known ? t(`capacity.plan.option.${known}`) : code;
}

export function warmWhyText(t: TFunction, code: string): string {
  const known = word(capacity.warm.why, code);
  return known ? t(`capacity.warm.why.${known}`) : code;
}

export function modeText(t: TFunction, code: string): string {
  const known = word(capacity.modes, code);
  return known ? t(`capacity.modes.${known}`) : code;
}

export function offeringText(t: TFunction, o: Offering): string {
  return [o.instanceType, t(`purchase.${o.purchase}`), o.zone || o.region].filter(Boolean).join(" · ");
}
