import type { BandPoint } from "../api/forecast";

/** Points farther apart than this have a gap between them. */
const GAP = 450_000;

/** A column of the band at the given times, by straight lines between its points; null in gaps and outside of it. Both are in order. */
export function bandColumn(
  band: readonly BandPoint[],
  at: readonly number[],
  key: "middle" | "upper" | "demand" | "hpa",
): (number | null)[] {
  let i = 0;
  return at.map((t) => {
    while (i + 1 < band.length && (band[i + 1]?.at ?? 0) <= t) i++;
    const a = band[i];
    const b = band[i + 1];
    if (!a || a.at > t) return null;
    const low = a[key];
    if (a.at === t || !b) return a.at === t ? low : null;
    const high = b[key];
    if (low === null || high === null || b.at - a.at > GAP) return null;
    if (key === "hpa") return low; // a count: there are no halves between two of them
    return low + ((high - low) * (t - a.at)) / (b.at - a.at);
  });
}

/** The times of the band that lie after the last of the given ones: what is still ahead. */
export function timesAhead(band: readonly BandPoint[], at: readonly number[]): number[] {
  const last = at[at.length - 1];
  if (last === undefined) return [];
  return band.filter((p) => p.at > last && p.upper !== null).map((p) => p.at);
}
