import { useComputedColorScheme } from "@mantine/core";

const LIGHT = ["#0d6c83", "#d08a2e", "#6d5fc4", "#4a9460", "#c0566b", "#4f9fd0", "#8a7f35", "#7b8794"];
const DARK = ["#3fb0c6", "#e2a653", "#9a8fe6", "#6dbb82", "#e07f92", "#74b9e6", "#b8ab58", "#98a4ae"];

export interface ChartColors {
  series: readonly string[];
  /** For what is no one's: idle, other. */
  muted: string;
  axis: string;
  split: string;
  panel: string;
  text: string;
  border: string;
  danger: string;
  up: string;
  down: string;
}

/** A palette that reads on both backgrounds. */
export function useChartColors(): ChartColors {
  const dark = useComputedColorScheme("light", { getInitialValueInEffect: false }) === "dark";
  return dark
    ? {
        series: DARK,
        muted: "#4b555c",
        axis: "#97a3ab",
        split: "#2b3237",
        panel: "#232a2f",
        text: "#dfe5e8",
        border: "#3a4349",
        danger: "#e5737b",
        up: "#3fb0c6",
        down: "#e2a653",
      }
    : {
        series: LIGHT,
        muted: "#c9d1d6",
        axis: "#66737b",
        split: "#edf0f2",
        panel: "#ffffff",
        text: "#1f2a30",
        border: "#d8dfe3",
        danger: "#c9414b",
        up: "#0d6c83",
        down: "#c07a1c",
      };
}
