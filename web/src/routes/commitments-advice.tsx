import { Group, NumberInput, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { adviceQuery } from "../api/commitments";
import { AdviceList } from "../components/advice-list";
import { Panel } from "../components/page";
import { BlockSkeleton, Empty, Gate } from "../components/state";
import { useFormat } from "../lib/format";

const FROM = "/signed-in/commitments";
const DISCOUNT = 37;
const WAIT_MS = 400;

/** A percentage that is told when typing pauses; empty is none. */
function Percent({
  label,
  hint,
  placeholder,
  value,
  most,
  onChange,
}: {
  label: string;
  hint: string;
  placeholder: string;
  value: number | undefined;
  most: number;
  onChange: (value: number | undefined) => void;
}) {
  const [text, setText] = useState<number | string>(value ?? "");
  useEffect(() => setText(value ?? ""), [value]);
  useEffect(() => {
    const next = typeof text === "number" ? text : undefined;
    if (next === value) return;
    const timer = setTimeout(() => onChange(next), WAIT_MS);
    return () => clearTimeout(timer);
  }, [text, value, onChange]);
  return (
    <NumberInput
      label={label}
      description={hint}
      inputWrapperOrder={["label", "input", "description"]}
      placeholder={placeholder}
      w={{ base: "100%", sm: 320 }}
      min={0}
      max={most}
      clampBehavior="strict"
      allowDecimal={false}
      suffix=" %"
      value={text}
      onChange={setText}
    />
  );
}

/** What to reserve by the tenant's own history, and why. */
export function AdviceTab({ span }: { span: { from: Date; to: Date } }) {
  const { t } = useTranslation();
  const f = useFormat();
  const search = useSearch({ from: FROM });
  const navigate = useNavigate({ from: "/commitments" });
  const change = (part: Partial<typeof search>) =>
    void navigate({ to: "/commitments", search: (before) => ({ ...before, ...part }), resetScroll: false });
  const discount = search.discount ?? DISCOUNT;
  const query = useQuery(
    adviceQuery(span.from, span.to, discount, search.spot === undefined ? null : search.spot / 100),
  );
  return (
    <Stack gap="md">
      <Panel title={t("market.commitments.rule")}>
        <Stack gap="md">
          <Text size="sm" c="dimmed" maw={900}>
            {t("market.commitments.ruleText")}
          </Text>
          <Group gap="lg" align="flex-start">
            <Percent
              label={t("market.commitments.discount")}
              hint={t("market.commitments.discountHint")}
              placeholder={f.percent(DISCOUNT / 100)}
              value={search.discount}
              most={95}
              onChange={(value) => change({ discount: value })}
            />
            <Percent
              label={t("market.commitments.spotShare")}
              hint={t("market.commitments.spotShareHint")}
              placeholder={t("market.commitments.asSeen")}
              value={search.spot}
              most={100}
              onChange={(value) => change({ spot: value })}
            />
            {query.data && (
              <div>
                <Text size="sm" c="dimmed">
                  {t("market.commitments.savingMonth")}
                </Text>
                <Text className="number" fz={26} fw={650} lh={1.3}>
                  {f.money(query.data.savingMonth, { style: "whole" })}
                </Text>
              </div>
            )}
          </Group>
        </Stack>
      </Panel>
      <Gate
        query={query}
        skeleton={<BlockSkeleton height={360} />}
        isEmpty={(data) => data.items.length === 0}
        empty={
          <Panel>
            <Empty title={t("market.commitments.adviceEmpty")} text={t("market.commitments.adviceEmptyText")} />
          </Panel>
        }
      >
        {(data) => <AdviceList items={data.items} />}
      </Gate>
    </Stack>
  );
}
