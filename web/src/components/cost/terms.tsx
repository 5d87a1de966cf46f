import { Group, SegmentedControl, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { BASES, type Basis, IDLES, type Idle } from "../../api/cost";
import { Hint } from "../page";

/** What amounts are: at which price, and who carries idle. */
export function CostTerms({
  idle,
  basis,
  onChange,
}: {
  idle: Idle;
  basis: Basis;
  onChange: (part: { idle?: Idle; basis?: Basis }) => void;
}) {
  const { t } = useTranslation();
  return (
    <>
      <Group gap={8}>
        <Text size="sm" c="dimmed">
          {t("cost.idleLabel")} <Hint text={t("cost.idleHint")} />
        </Text>
        <SegmentedControl
          size="xs"
          aria-label={t("cost.idleLabel")}
          value={idle}
          onChange={(value) => onChange({ idle: IDLES.find((i) => i === value) })}
          data={IDLES.map((i) => ({
            value: i,
            label: t(`cost.idle.${i}`),
            disabled: i === "machine" && basis !== "effective",
          }))}
        />
      </Group>
      <Group gap={8}>
        <Text size="sm" c="dimmed">
          {t("cost.basisLabel")} <Hint text={t("cost.basisHint")} />
        </Text>
        <SegmentedControl
          size="xs"
          aria-label={t("cost.basisLabel")}
          value={basis}
          onChange={(value) => {
            const next = BASES.find((b) => b === value);
            onChange({ basis: next, ...(next !== "effective" && idle === "machine" ? { idle: "shared" } : {}) });
          }}
          data={BASES.map((b) => ({ value: b, label: t(`cost.basis.${b}`) }))}
        />
      </Group>
    </>
  );
}
