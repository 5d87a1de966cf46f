import { Badge, Group, Stack, Text, UnstyledButton } from "@mantine/core";
import { IconCircleCheck } from "@tabler/icons-react";
import { useRef } from "react";
import { useTranslation } from "react-i18next";
import type { Finding } from "../api/policies";
import { diffLines } from "../lib/diff";

const LINE_PX = 20;

/** A plain text editor with line numbers; lines with findings are marked. Tab moves on, as the keyboard expects. */
export function Editor({
  value,
  onChange,
  readOnly,
  findings,
  label,
  height = 460,
}: {
  value: string;
  onChange: (value: string) => void;
  readOnly: boolean;
  findings: readonly Finding[];
  label: string;
  height?: number;
}) {
  const gutter = useRef<HTMLDivElement>(null);
  const severity = new Map<number, string>();
  for (const f of findings) if (f.line && severity.get(f.line) !== "error") severity.set(f.line, f.severity);
  const count = value.split("\n").length;
  return (
    <div className="editor" style={{ height }}>
      <div ref={gutter} className="editor-lines" aria-hidden="true">
        {Array.from({ length: count }, (_, i) => i + 1).map((n) => (
          <span key={n} data-severity={severity.get(n)} style={{ height: LINE_PX }}>
            {n}
          </span>
        ))}
      </div>
      <textarea
        aria-label={label}
        value={value}
        onChange={(event) => onChange(event.currentTarget.value)}
        onScroll={(event) => {
          if (gutter.current) gutter.current.scrollTop = event.currentTarget.scrollTop;
        }}
        readOnly={readOnly}
        spellCheck={false}
        autoCapitalize="off"
        autoCorrect="off"
        maxLength={65_536}
      />
    </div>
  );
}

export function Findings({ findings, checking }: { findings: readonly Finding[]; checking: boolean }) {
  const { t } = useTranslation();
  if (checking)
    return (
      <Text size="sm" c="dimmed">
        {t("policy.findingsWait")}
      </Text>
    );
  if (findings.length === 0) {
    return (
      <Group gap={6} c="teal">
        <IconCircleCheck size={18} />
        <Text size="sm">{t("policy.findingsNone")}</Text>
      </Group>
    );
  }
  return (
    <Stack gap={10}>
      {findings.map((f) => (
        <div key={`${f.severity}${f.field}${f.line}${f.message}`}>
          <Group gap={8}>
            <Badge color={f.severity === "error" ? "red" : "orange"} size="sm">
              {t(f.severity === "error" ? "policy.error" : "policy.warning")}
            </Badge>
            {f.field && <span className="mono">{f.field}</span>}
            {f.line && (
              <Text size="xs" c="dimmed">
                {t("policy.line", { line: f.line })}
              </Text>
            )}
          </Group>
          <Text size="sm" mt={2}>
            {f.message}
          </Text>
        </div>
      ))}
    </Stack>
  );
}

export function Diff({ before, after }: { before: string; after: string }) {
  const { t } = useTranslation();
  const lines = diffLines(before, after);
  if (lines.every((l) => l.kind === "same"))
    return (
      <Text size="sm" c="dimmed">
        {t("policy.same")}
      </Text>
    );
  const words = { same: "", add: t("policy.diffAdded"), remove: t("policy.diffRemoved") };
  return (
    <div className="diff">
      {lines.map((line, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: lines have no identity of their own
        <div key={index} data-kind={line.kind} title={words[line.kind]}>
          <span>{{ same: " ", add: "+", remove: "−" }[line.kind]}</span>
          <span>{line.text || " "}</span>
        </div>
      ))}
    </div>
  );
}

/** A list entry that is a button as wide as its place. */
export function RowButton({
  active,
  onClick,
  children,
}: {
  active?: boolean;
  onClick: () => void;
  children: React.ReactNode;
}) {
  return (
    <UnstyledButton
      onClick={onClick}
      w="100%"
      px="sm"
      py={8}
      style={{ borderRadius: "var(--mantine-radius-md)", background: active ? "var(--faint)" : undefined }}
    >
      {children}
    </UnstyledButton>
  );
}
