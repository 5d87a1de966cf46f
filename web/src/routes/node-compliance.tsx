// Machines that do not obey the capacity policy: below the list of nodes.
import { Badge, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { type NodeCompliance as Compliance, nodeComplianceQuery } from "../api/capacity-policy";
import { offeringText } from "../components/capacity/words";
import { Panel } from "../components/page";
import { Empty, Gate, TableSkeleton } from "../components/state";
import { type Column, DataTable } from "../components/table";
import { useFormat } from "../lib/format";
import { capacityPolicy } from "../locales/capacity-policy.en";

type Item = Compliance["items"][number];
type Code = keyof typeof capacityPolicy.compliance.codes;
type Rule = keyof typeof capacityPolicy.compliance.rules;
const isCode = (v: string): v is Code => Object.hasOwn(capacityPolicy.compliance.codes, v);
const isRule = (v: string): v is Rule => Object.hasOwn(capacityPolicy.compliance.rules, v);

function Findings({ item }: { item: Item }) {
  const { t } = useTranslation();
  return (
    <Stack gap={4}>
      {item.findings.map((x) => (
        <Group key={`${x.code} ${x.want}`} gap={8}>
          <Badge size="sm" color="red" variant="light" tt="none">
            {isCode(x.code) ? t(`capacityPolicy.compliance.codes.${x.code}`) : x.code}
          </Badge>
          <Text size="xs" c="dimmed" style={{ overflowWrap: "anywhere" }}>
            {x.want === "" && t("capacityPolicy.compliance.gotOnly", { got: x.got })}
            {x.want !== "" && x.got !== "" && t("capacityPolicy.compliance.wantGot", { want: x.want, got: x.got })}
            {x.want !== "" && x.got === "" && t("capacityPolicy.compliance.wantOnly", { want: x.want })}
          </Text>
        </Group>
      ))}
      {item.unchecked.length > 0 && (
        <Text size="xs" c="dimmed">
          {t("capacityPolicy.compliance.unchecked", {
            value: item.unchecked.map((r) => (isRule(r) ? t(`capacityPolicy.compliance.rules.${r}`) : r)).join(", "),
          })}
        </Text>
      )}
    </Stack>
  );
}

export function NodeCompliancePanel({ cluster }: { cluster: string }) {
  const { t } = useTranslation();
  const f = useFormat();
  const query = useQuery(nodeComplianceQuery(cluster));
  const columns: Column<Item>[] = [
    {
      key: "node",
      header: t("capacityPolicy.compliance.node"),
      render: (n) => (
        <Stack gap={0}>
          <span className="mono">{n.node}</span>
          <Text size="xs" c="dimmed">
            {offeringText(t, n.offering)}
          </Text>
        </Stack>
      ),
    },
    { key: "findings", header: t("capacityPolicy.compliance.finding"), render: (n) => <Findings item={n} /> },
  ];
  const data = query.data;
  return (
    <Stack p="md" data-node-compliance>
      <Panel title={t("capacityPolicy.compliance.title")} hint={t("capacityPolicy.compliance.hint")} flush>
        <Gate
          query={query}
          skeleton={<TableSkeleton rows={2} />}
          isEmpty={(c) => c.items.length === 0}
          empty={
            data && data.at === null ? (
              <Empty title={t("capacityPolicy.compliance.never")} height={80} />
            ) : data && !data.asks ? (
              <Empty
                title={t("capacityPolicy.compliance.noPolicy")}
                text={t("capacityPolicy.compliance.noPolicyText")}
                height={80}
              />
            ) : (
              <Empty
                title={t("capacityPolicy.compliance.good", { value: f.integer(data?.checked ?? 0) })}
                text={t("capacityPolicy.compliance.goodText")}
                height={80}
              />
            )
          }
        >
          {(c) => (
            <Stack gap="xs">
              <Text size="sm" c="dimmed" px="md">
                {t("capacityPolicy.compliance.summary", {
                  breaking: f.integer(c.breaking),
                  checked: f.integer(c.checked),
                  unknown: f.integer(c.unknown),
                })}
                {c.truncated && ` ${t("capacityPolicy.compliance.truncated")}`}
              </Text>
              <DataTable
                rows={c.items}
                columns={columns}
                rowKey={(n) => n.node}
                label={t("capacityPolicy.compliance.title")}
              />
            </Stack>
          )}
        </Gate>
      </Panel>
    </Stack>
  );
}
