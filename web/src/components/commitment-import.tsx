import { Alert, Button, Code, FileButton, Group, Modal, SegmentedControl, Stack, Text, Textarea } from "@mantine/core";
import { IconFileUpload } from "@tabler/icons-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";

export const IMPORT_FORMATS = ["csv", "json"] as const;
export type ImportFormat = (typeof IMPORT_FORMATS)[number];

/** The service reads at most this much. */
const MOST_BYTES = 8 << 20;

const SAMPLE: Record<ImportFormat, string> = {
  csv: "ref,kind,region,instance_type,quantity,recurring_hour,starts_at,ends_at,owner\nri-2026-01,aws_regional_ri,us-east-1,g6.12xlarge,2,5.80,2026-01-01,2027-01-01,platform",
  json: '[{"ref": "sp-2026-01", "kind": "aws_compute_sp", "hourly_commitment": "4.00", "discount_percent": "28",\n  "starts_at": "2026-01-01", "ends_at": "2027-01-01"}]',
};

/** What a text looks like. */
export function formatOf(text: string): ImportFormat {
  return /^\s*[[{]/.test(text) ? "json" : "csv";
}

/** The row that the service could not read, from its words; null when it names none. */
export function badRow(message: string): number | null {
  const match = /^row (\d+)\b/.exec(message);
  return match ? Number(match[1]) : null;
}

/**
 * The text of a row as the service counts: CSV by lines that are not blank, from the head on; JSON by objects. null where that
 * cannot be said: a quoted cell may run over several lines.
 */
export function rowText(text: string, format: ImportFormat, row: number): string | null {
  if (format === "csv") {
    const lines = text.split(/\r?\n/).filter((line) => line !== "");
    const broken = lines.some((line) => line.split('"').length % 2 === 0);
    return broken ? null : (lines[row - 1] ?? null);
  }
  try {
    const rows: unknown = JSON.parse(text);
    return Array.isArray(rows) && rows[row - 1] !== undefined ? JSON.stringify(rows[row - 1]) : null;
  } catch {
    return null;
  }
}

/** Takes a file or pasted text; what the service cannot read is shown with its row. */
export function CommitmentImport({
  busy,
  problem,
  onClose,
  onImport,
}: {
  busy: boolean;
  /** The service's words on the last attempt. */
  problem: string | null;
  onClose: () => void;
  onImport: (text: string, format: ImportFormat) => void;
}) {
  const { t } = useTranslation();
  const [text, setText] = useState("");
  const [format, setFormat] = useState<ImportFormat>("csv");
  const [sent, setSent] = useState<string | null>(null);
  const [large, setLarge] = useState(false);
  const take = (value: string) => {
    setText(value);
    if (value.trim() !== "") setFormat(formatOf(value));
  };
  const load = async (file: File | null) => {
    if (!file) return;
    setLarge(file.size > MOST_BYTES);
    if (file.size <= MOST_BYTES) take(await file.text());
  };
  const row = problem && sent === text ? badRow(problem) : null;
  const line = row === null ? null : rowText(text, format, row);
  return (
    <Modal opened onClose={onClose} title={t("market.commitments.importTitle")} size="xl">
      <Stack>
        <Text size="sm" c="dimmed">
          {t("market.commitments.importText")}
        </Text>
        <Group justify="space-between">
          <SegmentedControl
            size="xs"
            aria-label={t("market.commitments.format")}
            value={format}
            onChange={(value) => setFormat(IMPORT_FORMATS.find((f) => f === value) ?? "csv")}
            data={[
              { value: "csv", label: "CSV" },
              { value: "json", label: "JSON" },
            ]}
          />
          <FileButton onChange={(file) => void load(file)} accept=".csv,.json,text/csv,application/json">
            {(props) => (
              <Button size="xs" variant="default" leftSection={<IconFileUpload size={14} />} {...props}>
                {t("market.commitments.chooseFile")}
              </Button>
            )}
          </FileButton>
        </Group>
        <Textarea
          data-autofocus
          aria-label={t("market.commitments.paste")}
          placeholder={SAMPLE[format]}
          value={text}
          onChange={(event) => take(event.currentTarget.value)}
          rows={12}
          spellCheck={false}
          styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: 12.5 } }}
        />
        {large && <Alert color="red">{t("market.commitments.tooLarge")}</Alert>}
        {problem && sent === text && (
          <Alert color="red" title={t("market.commitments.notImported")} role="alert">
            <Stack gap={6}>
              <Text size="sm">{problem}</Text>
              {line && (
                <Code block style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>
                  {line}
                </Code>
              )}
            </Stack>
          </Alert>
        )}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            {t("common.cancel")}
          </Button>
          <Button
            loading={busy}
            disabled={text.trim() === ""}
            onClick={() => {
              setSent(text);
              onImport(text, format);
            }}
          >
            {t("market.commitments.import")}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
