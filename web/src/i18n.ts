import i18n from "i18next";
import { initReactI18next } from "react-i18next";
import { en } from "./locales/en";
import { zh } from "./locales/zh";

declare module "i18next" {
  interface CustomTypeOptions {
    defaultNS: "translation";
    resources: { translation: typeof en };
    contextSeparator: "::";
    pluralSeparator: "::";
  }
}

export const LANGUAGES = ["en", "zh"] as const;
export type Language = (typeof LANGUAGES)[number];

const STORE = "plimsoll.language";

function firstLanguage(): Language {
  const kept = globalThis.localStorage?.getItem(STORE);
  if (kept === "en" || kept === "zh") return kept;
  return globalThis.navigator?.language?.toLowerCase().startsWith("zh") ? "zh" : "en";
}

void i18n.use(initReactI18next).init({
  resources: { en: { translation: en }, zh: { translation: zh } },
  lng: firstLanguage(),
  fallbackLng: "en",
  interpolation: { escapeValue: false },
  returnNull: false,
  // Keys are the words of the API (scale_up, cooldown_down): an underscore means nothing else here.
  contextSeparator: "::",
  pluralSeparator: "::",
});

export function setLanguage(language: Language): void {
  localStorage.setItem(STORE, language);
  void i18n.changeLanguage(language);
}

function markDocument(language: string): void {
  if (globalThis.document) document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
}

markDocument(i18n.language);
i18n.on("languageChanged", markDocument);

export { i18n };
