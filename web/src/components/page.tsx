import { Anchor, Card, Group, Stack, Text, Title, Tooltip } from "@mantine/core";
import { IconInfoCircle } from "@tabler/icons-react";
import { type ReactNode, useEffect } from "react";

/** The head of every page; it also names the browser's tab. */
export function PageHead({
  title,
  crumb,
  badges,
  text,
  actions,
}: {
  title: string;
  crumb?: ReactNode;
  badges?: ReactNode;
  text?: ReactNode;
  actions?: ReactNode;
}) {
  useEffect(() => {
    document.title = `${title} · Plimsoll`;
  }, [title]);
  return (
    <Group justify="space-between" align="flex-end" gap="md" mb="lg">
      <Stack gap={4} style={{ minWidth: 0 }}>
        {crumb && (
          <Text size="sm" c="dimmed" component="div">
            {crumb}
          </Text>
        )}
        <Group gap="sm">
          <Title order={1} style={{ overflowWrap: "anywhere" }}>
            {title}
          </Title>
          {badges}
        </Group>
        {text && (
          <Text size="sm" c="dimmed" maw={760}>
            {text}
          </Text>
        )}
      </Stack>
      {actions && <Group gap="sm">{actions}</Group>}
    </Group>
  );
}

export function Hint({ text }: { text: string }) {
  return (
    <Tooltip label={text}>
      <Anchor
        component="span"
        c="dimmed"
        role="img"
        tabIndex={0}
        aria-label={text}
        style={{ display: "inline-flex", verticalAlign: "-2px" }}
      >
        <IconInfoCircle size={14} />
      </Anchor>
    </Tooltip>
  );
}

/** A titled card. */
export function Panel({
  title,
  hint,
  actions,
  flush,
  children,
}: {
  title?: ReactNode;
  hint?: string;
  actions?: ReactNode;
  /** No padding around the content: for tables. */
  flush?: boolean;
  children: ReactNode;
}) {
  return (
    <Card className="card" p={flush ? 0 : undefined}>
      {(title || actions) && (
        <Group
          justify="space-between"
          gap="sm"
          px={flush ? "md" : 0}
          pt={flush ? "sm" : 0}
          pb={flush ? "xs" : "sm"}
          mih={flush ? 48 : 32}
        >
          <Group gap={6}>
            {title && <Title order={2}>{title}</Title>}
            {hint && <Hint text={hint} />}
          </Group>
          {actions}
        </Group>
      )}
      {children}
    </Card>
  );
}

/** One figure with its name and a line of detail. */
export function Stat({
  label,
  hint,
  value,
  detail,
  children,
}: {
  label: string;
  hint?: string;
  value: ReactNode;
  detail?: ReactNode;
  children?: ReactNode;
}) {
  return (
    <Card className="card" padding="md" h="100%">
      <Group gap={6} mb={4}>
        <Text size="sm" c="dimmed" fw={500}>
          {label}
        </Text>
        {hint && <Hint text={hint} />}
      </Group>
      <Text
        className="number"
        fz={{ base: 20, sm: 26 }}
        fw={650}
        lh={1.2}
        component="div"
        style={{ overflowWrap: "anywhere" }}
      >
        {value}
      </Text>
      <Text size="sm" c="dimmed" mt={4} mih={21} component="div" className="number">
        {detail}
      </Text>
      {children}
    </Card>
  );
}

/** Name and value pairs. */
export function Facts({
  items,
  columns = 1,
}: {
  items: { label: string; value: ReactNode; hint?: string }[];
  columns?: number;
}) {
  return (
    <dl
      style={{
        display: "grid",
        gridTemplateColumns: `repeat(${columns}, minmax(110px, max-content) minmax(0, 1fr))`,
        gap: "4px 16px",
        margin: 0,
        alignItems: "center",
        gridAutoRows: "minmax(26px, auto)",
        alignContent: "start",
      }}
    >
      {items.map((item) => (
        <div key={item.label} style={{ display: "contents" }}>
          <Text component="dt" size="sm" c="dimmed">
            {item.label} {item.hint && <Hint text={item.hint} />}
          </Text>
          <Text component="dd" size="sm" m={0} className="number" style={{ overflowWrap: "anywhere" }}>
            {item.value}
          </Text>
        </div>
      ))}
    </dl>
  );
}
