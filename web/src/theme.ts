import { Badge, Button, Card, createTheme, type MantineColorsTuple, Modal, Table, Tooltip } from "@mantine/core";

const sea: MantineColorsTuple = [
  "#e9f6f8",
  "#d5eaef",
  "#a9d5df",
  "#79bfce",
  "#53acc0",
  "#3a9fb7",
  "#2a93ad",
  "#187d96",
  "#0d6c83",
  "#005a6f",
];

/** Greys with a breath of blue, so that the dark page and Mantine's parts match. */
const dark: MantineColorsTuple = [
  "#dfe5e8",
  "#b8c2c8",
  "#97a3ab",
  "#6b7780",
  "#3a434a",
  "#2d353a",
  "#232a2f",
  "#1b2024",
  "#15191c",
  "#0f1214",
];

export const theme = createTheme({
  primaryColor: "sea",
  primaryShade: { light: 8, dark: 6 },
  colors: { sea, dark },
  autoContrast: true,
  defaultRadius: "md",
  fontFamily:
    'Inter, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", "WenQuanYi Micro Hei", sans-serif',
  fontFamilyMonospace: 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace',
  headings: {
    fontWeight: "650",
    sizes: { h1: { fontSize: "1.45rem", lineHeight: "1.3" }, h2: { fontSize: "1.05rem" } },
  },
  cursorType: "pointer",
  components: {
    Card: Card.extend({ defaultProps: { withBorder: true, padding: "lg", radius: "md" } }),
    Table: Table.extend({ defaultProps: { verticalSpacing: 9, horizontalSpacing: "md", highlightOnHover: true } }),
    Badge: Badge.extend({
      defaultProps: { variant: "light", radius: "sm", tt: "none", fw: 550 },
      styles: { root: { flex: "none", maxWidth: "none" }, label: { overflow: "visible" } },
    }),
    Button: Button.extend({ defaultProps: { size: "sm" } }),
    Tooltip: Tooltip.extend({ defaultProps: { openDelay: 250, withArrow: true, multiline: true, maw: 340 } }),
    Modal: Modal.extend({ defaultProps: { centered: true, overlayProps: { backgroundOpacity: 0.45, blur: 1 } } }),
  },
});
