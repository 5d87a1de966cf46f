const cache = new Map<string, Intl.NumberFormat>();

function numberFormat(locale: string, options: Intl.NumberFormatOptions): Intl.NumberFormat {
  const key = locale + JSON.stringify(options);
  let found = cache.get(key);
  if (!found) {
    found = new Intl.NumberFormat(locale, options);
    cache.set(key, found);
  }
  return found;
}

/** A plain number: whole from 100 up, else at most two places that matter. */
export function formatNumber(value: number, locale: string): string {
  const abs = Math.abs(value);
  const places = abs >= 100 || Number.isInteger(value) ? 0 : abs >= 10 ? 1 : 2;
  return numberFormat(locale, { maximumFractionDigits: places }).format(value);
}

export function formatInteger(value: number, locale: string): string {
  return numberFormat(locale, { maximumFractionDigits: 0 }).format(value);
}

export function formatSigned(value: number, locale: string): string {
  return numberFormat(locale, { maximumFractionDigits: 0, signDisplay: "exceptZero" }).format(value);
}

export function formatCompact(value: number, locale: string): string {
  return numberFormat(locale, { notation: "compact", maximumFractionDigits: 1 }).format(value);
}

/** A ratio 0..1 as percent. Small ones keep two places, so that 0.04 % is not 0 %. */
export function formatPercent(ratio: number, locale: string, places?: number): string {
  const abs = Math.abs(ratio);
  const digits = places ?? (abs === 0 || abs >= 0.1 ? 0 : abs >= 0.01 ? 1 : 2);
  return numberFormat(locale, { style: "percent", maximumFractionDigits: digits }).format(ratio);
}

/** Seconds as a latency: milliseconds under one second. */
export function formatLatency(seconds: number, locale: string): string {
  if (seconds < 1) {
    return numberFormat(locale, {
      style: "unit",
      unit: "millisecond",
      unitDisplay: "short",
      maximumFractionDigits: 0,
    }).format(seconds * 1000);
  }
  return numberFormat(locale, {
    style: "unit",
    unit: "second",
    unitDisplay: "narrow",
    maximumFractionDigits: seconds < 10 ? 2 : 1,
  }).format(seconds);
}

/** MiB as the largest fitting binary unit. */
export function formatMebibytes(mib: number, locale: string): string {
  if (mib >= 1024 * 1024) return `${formatNumber(mib / 1024 / 1024, locale)} TiB`;
  if (mib >= 1024) return `${formatNumber(mib / 1024, locale)} GiB`;
  return `${formatNumber(mib, locale)} MiB`;
}

/** A bandwidth given in Mbit/s. */
export function formatGigabits(mbps: number, locale: string): string {
  return `${formatNumber(mbps / 1000, locale)} Gbit/s`;
}

/** Memory in GiB whatever its size, for figures that are held against each other. */
export function formatGibibytes(mib: number, locale: string): string {
  return `${formatNumber(mib / 1024, locale)} GiB`;
}
