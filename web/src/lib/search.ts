// URL state is parsed, never trusted: what does not fit its schema becomes the default, and defaults leave no trace in the URL.

type Raw = Record<string, unknown>;

export interface Field<T> {
  readonly parse: (value: unknown) => T | undefined;
}

export type Search<S extends Record<string, Field<unknown>>> = {
  [K in keyof S]?: S[K] extends Field<infer T> ? T : never;
};

/** Free text, trimmed, at most `most` characters. */
export function text(most = 200): Field<string> {
  return {
    parse: (value) => {
      const s = typeof value === "number" ? String(value) : value;
      return typeof s === "string" && s.trim() !== "" ? s.slice(0, most) : undefined;
    },
  };
}

/** One of a closed set of words. */
export function oneOf<const T extends string>(words: readonly T[]): Field<T> {
  return { parse: (value) => words.find((w) => w === value) };
}

/** A whole number within bounds. */
export function whole(min: number, max: number): Field<number> {
  return {
    parse: (value) => {
      const n = typeof value === "string" && value !== "" ? Number(value) : value;
      return typeof n === "number" && Number.isInteger(n) && n >= min && n <= max ? n : undefined;
    },
  };
}

/** A switch: true or not there. */
export const flag: Field<true> = { parse: (value) => (value === true || value === "true" ? true : undefined) };

/** A moment, kept in the URL as RFC 3339. */
export const moment: Field<string> = {
  parse: (value) =>
    typeof value === "string" && /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value) && !Number.isNaN(Date.parse(value))
      ? value
      : undefined,
};

/** A validator for a route: keeps only what the schema knows and can read. */
export function schema<S extends Record<string, Field<unknown>>>(fields: S): (raw: Raw) => Search<S> {
  return (raw) => {
    const out: Record<string, unknown> = {};
    for (const [name, field] of Object.entries(fields)) {
      const value = field.parse(raw[name]);
      if (value !== undefined) out[name] = value;
    }
    return out as Search<S>;
  };
}
