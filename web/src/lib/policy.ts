/**
 * Reads the latency target out of a policy's text, to draw it into a chart. It knows only the shape that the editor's presets have:
 * a top-level `latency:` block with `signal` and `target_seconds`. Anything else gives null, and the chart draws no line.
 */
export function latencyTarget(document: string): { signal: string; seconds: number } | null {
  let inside = false;
  let signal = "latency_p99_seconds";
  let seconds: number | null = null;
  for (const line of document.split("\n")) {
    if (/^\S/.test(line)) inside = /^latency:\s*(#.*)?$/.test(line);
    if (!inside) continue;
    const field = /^\s+(signal|target_seconds):\s*([^#\s]+)/.exec(line);
    if (field?.[1] === "signal") signal = field[2]?.replaceAll(/["']/g, "") ?? signal;
    if (field?.[1] === "target_seconds") seconds = Number(field[2]);
  }
  return seconds !== null && Number.isFinite(seconds) && seconds > 0 ? { signal, seconds } : null;
}
