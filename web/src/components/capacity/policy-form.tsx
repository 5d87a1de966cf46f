import {
  ActionIcon,
  Button,
  Fieldset,
  Group,
  Select,
  SimpleGrid,
  Stack,
  Switch,
  Table,
  Text,
  TextInput,
} from "@mantine/core";
import { IconPlus, IconTrash } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";
import {
  type Column,
  type Draft,
  FIELDS,
  type FieldKey,
  faultOf,
  isRows,
  ROWS,
  type Row,
  type RowsKey,
  rowFault,
  SECTIONS,
  type Section,
} from "../../lib/capacity-policy";
import { useFormat } from "../../lib/format";

interface Props {
  draft: Draft;
  currency: string;
  may: boolean;
  onChange: (draft: Draft) => void;
}

/** What holds while a field is empty, as its unit is written. */
function useStandard() {
  const { t } = useTranslation();
  const f = useFormat();
  return (key: FieldKey): string => {
    const { standard, kind } = FIELDS[key];
    if (kind === "names" || kind === "text" || kind === "budget" || standard === undefined) return "";
    return t("capacityPolicy.usual", { value: f.number(kind === "permille" ? standard / 10 : standard) });
  };
}

function Field({ field, draft, currency, may, onChange }: Props & { field: Exclude<FieldKey, RowsKey> }) {
  const { t } = useTranslation();
  const f = useFormat();
  const standard = useStandard();
  const value = draft.text[field] ?? "";
  const set = (text: string) => onChange({ ...draft, text: { ...draft.text, [field]: text } });
  const label = t(`capacityPolicy.fields.${field}.label`);
  const help = t(`capacityPolicy.fields.${field}.help`, { currency });
  if (FIELDS[field].kind === "flag")
    return (
      <Switch
        label={label}
        description={help}
        checked={value !== ""}
        disabled={!may}
        onChange={(e) => set(e.currentTarget.checked ? "yes" : "")}
      />
    );
  const fault = faultOf(field, value.trim());
  return (
    <TextInput
      label={label}
      description={help}
      placeholder={standard(field)}
      value={value}
      disabled={!may}
      inputMode={FIELDS[field].kind === "names" || FIELDS[field].kind === "text" ? undefined : "decimal"}
      error={fault && t(`capacityPolicy.faults.${fault}`, { max: f.integer(FIELDS[field].max ?? 0) })}
      onChange={(e) => set(e.currentTarget.value)}
    />
  );
}

function Cell({
  column,
  row,
  index,
  may,
  onChange,
}: {
  column: Column;
  row: Row;
  index: number;
  may: boolean;
  onChange: (text: string) => void;
}) {
  const { t } = useTranslation();
  const label = `${t(`capacityPolicy.columns.${column}`)} ${index + 1}`;
  const value = row[column] ?? "";
  if (column === "how")
    return (
      <Select
        size="xs"
        aria-label={label}
        data={(["fixed", "growth"] as const).map((v) => ({ value: v, label: t(`capacityPolicy.how.${v}`) }))}
        value={value || "fixed"}
        disabled={!may}
        allowDeselect={false}
        onChange={(v) => v && onChange(v)}
      />
    );
  if (column === "spot")
    return (
      <Switch
        aria-label={label}
        checked={value !== ""}
        disabled={!may}
        onChange={(e) => onChange(e.currentTarget.checked ? "yes" : "")}
      />
    );
  return (
    <TextInput
      size="xs"
      aria-label={label}
      value={value}
      disabled={!may}
      onChange={(e) => onChange(e.currentTarget.value)}
    />
  );
}

const FRESH: Record<RowsKey, Row> = {
  equivalent: {},
  freeze: { from: "22:00", to: "06:00", time_zone: "UTC" },
  warm: { how: "fixed", count: "1" },
  gpu_needs: {},
};

function Rows({ field, draft, may, onChange }: Props & { field: RowsKey }) {
  const { t } = useTranslation();
  const f = useFormat();
  const rows = draft.rows[field];
  const set = (next: Row[]) => onChange({ ...draft, rows: { ...draft.rows, [field]: next } });
  const label = t(`capacityPolicy.fields.${field}.label`);
  return (
    <Stack gap={6} style={{ gridColumn: "1 / -1" }}>
      <div>
        <Text size="sm" fw={500}>
          {label}
        </Text>
        <Text size="xs" c="dimmed">
          {t(`capacityPolicy.fields.${field}.help`)}
        </Text>
      </div>
      {rows.length === 0 ? (
        <Text size="sm" c="dimmed">
          {t("capacityPolicy.noRows")}
        </Text>
      ) : (
        <Table.ScrollContainer minWidth={ROWS[field].length * 110}>
          <Table verticalSpacing={4} horizontalSpacing={6} aria-label={label}>
            <Table.Thead>
              <Table.Tr>
                {ROWS[field].map((c) => (
                  <Table.Th key={c}>{t(`capacityPolicy.columns.${c}`)}</Table.Th>
                ))}
                <Table.Th />
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {rows.map((row, i) => {
                const fault = rowFault(field, row);
                return (
                  // biome-ignore lint/suspicious/noArrayIndexKey: rows have no name of their own
                  <Table.Tr key={i}>
                    {ROWS[field].map((c, j) => (
                      <Table.Td key={c} style={{ verticalAlign: "top" }}>
                        <Cell
                          column={c}
                          row={row}
                          index={i}
                          may={may}
                          onChange={(text) => set(rows.map((r, k) => (k === i ? { ...r, [c]: text } : r)))}
                        />
                        {fault && j === 0 && (
                          <Text size="xs" c="red" role="alert">
                            {t(`capacityPolicy.faults.${fault}`, { max: f.integer(1024) })}
                          </Text>
                        )}
                      </Table.Td>
                    ))}
                    <Table.Td style={{ verticalAlign: "top" }}>
                      {may && (
                        <ActionIcon
                          variant="subtle"
                          color="gray"
                          aria-label={t("capacityPolicy.removeRow", { value: i + 1 })}
                          onClick={() => set(rows.filter((_, k) => k !== i))}
                        >
                          <IconTrash size={16} />
                        </ActionIcon>
                      )}
                    </Table.Td>
                  </Table.Tr>
                );
              })}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
      {may && rows.length < (FIELDS[field].max ?? 0) && (
        <Group>
          <Button
            size="compact-xs"
            variant="default"
            leftSection={<IconPlus size={12} />}
            aria-label={`${t("capacityPolicy.addRow")}: ${label}`}
            onClick={() => set([...rows, FRESH[field]])}
          >
            {t("capacityPolicy.addRow")}
          </Button>
        </Group>
      )}
    </Stack>
  );
}

const NAMES = Object.keys(SECTIONS).filter((k): k is Section => Object.hasOwn(SECTIONS, k));

/** Every field of a capacity policy, by section. */
export function PolicyForm(props: Props) {
  const { t } = useTranslation();
  return (
    <Stack gap="md">
      {NAMES.map((section) => (
        <Fieldset key={section} legend={t(`capacityPolicy.sections.${section}`)}>
          <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }} spacing="md" style={{ alignItems: "start" }}>
            {SECTIONS[section].map((key) =>
              isRows(key) ? <Rows key={key} field={key} {...props} /> : <Field key={key} field={key} {...props} />,
            )}
          </SimpleGrid>
        </Fieldset>
      ))}
    </Stack>
  );
}
