import { Group, Text } from "@mantine/core";

export function Mark({ size = 28 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="7" fill="#0f4c5c" />
      <g fill="none" stroke="#fff" strokeWidth="2.6" strokeLinecap="round">
        <circle cx="16" cy="16" r="7.2" />
        <path d="M5.5 16h21" />
      </g>
    </svg>
  );
}

export function Logo() {
  return (
    <Group gap={10} wrap="nowrap">
      <Mark />
      <Text fw={700} fz={18} lts="-0.01em" visibleFrom="xs">
        Plimsoll
      </Text>
    </Group>
  );
}
