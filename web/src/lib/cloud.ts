export const CLOUDS = ["aws", "azure", "gcp"] as const;
export type Cloud = (typeof CLOUDS)[number];

/** Brand names, the same in every language. */
const NAMES: Record<Cloud, string> = { aws: "AWS", azure: "Azure", gcp: "Google Cloud" };

export function cloudName(cloud: string): string {
  const known = CLOUDS.find((c) => c === cloud);
  return known ? NAMES[known] : cloud;
}
