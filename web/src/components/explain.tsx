// The parts of a decision's explanation. Sentences come from lib/explain.
import { Badge, Group, Progress, Stack, Table, Text, Tooltip } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";
import type { DecisionDetail, Reason } from "../api/decisions";
import { chosenAlternative, reasonName, reasonText } from "../lib/explain";
import { useFormat } from "../lib/format";
import { signalName, signalValue } from "../lib/signal";
import { TruthBadge } from "./badge";
import { Hint } from "./page";

function CountBar({ value, most, strong }: { value: number; most: number; strong: boolean }) {
  const f = useFormat();
  return (
    <Group gap={8} wrap="nowrap" w={{ base: 34, sm: 150 }} style={{ flexShrink: 0 }}>
      <Progress
        visibleFrom="sm"
        value={most > 0 ? (value / most) * 100 : 0}
        size={8}
        style={{ flex: 1 }}
        color={strong ? undefined : "gray.5"}
        aria-hidden
      />
      <Text size="sm" fw={strong ? 700 : 500} className="number" w={34} ta="right">
        {f.integer(value)}
      </Text>
    </Group>
  );
}

function Step({ reason, most, last }: { reason: Reason; most: number; last: boolean }) {
  const { t } = useTranslation();
  const f = useFormat();
  return (
    <div className="ladder">
      <div className="ladder-rail" data-last={last || undefined}>
        <span className="ladder-dot" data-binding={reason.binding || undefined} />
      </div>
      <Group justify="space-between" align="flex-start" wrap="nowrap" pb="md" gap="lg">
        <div style={{ minWidth: 0 }}>
          <Group gap={8}>
            <Text fw={600} size="sm">
              {reasonName(t, reason.code)}
            </Text>
            <Text size="sm" c="dimmed" className="number">
              {reason.from === reason.to
                ? t("decisions.stepKeeps", { to: f.integer(reason.to) })
                : `${f.integer(reason.from)} → ${f.integer(reason.to)}`}
            </Text>
            {reason.binding && <Badge size="sm">{t("decisions.settled")}</Badge>}
            {reason.until && (
              <Text size="xs" c="dimmed">
                {t("decisions.until", { time: f.dateTime(reason.until) })}
              </Text>
            )}
          </Group>
          <Text size="sm" c="dimmed" mt={2}>
            {reasonText(t, f, reason)}
          </Text>
        </div>
        <CountBar value={reason.to} most={most} strong={reason.binding} />
      </Group>
    </div>
  );
}

/** From what was there to what was decided, one step per rule and guard. */
export function Ladder({ decision: d }: { decision: DecisionDetail }) {
  const { t } = useTranslation();
  const f = useFormat();
  const most = Math.max(d.from, d.target, ...d.reasons.flatMap((r) => [r.from, r.to]), 1);
  return (
    <div>
      <div className="ladder">
        <div className="ladder-rail" data-first>
          <span className="ladder-dot" />
        </div>
        <Group justify="space-between" wrap="nowrap" pb="md">
          <Text size="sm" fw={600}>
            {t("decisions.there")}
            <Text span size="sm" c="dimmed" fw={400}>
              {" "}
              · {t("decisions.readyThen")}: {f.integer(d.ready)}
            </Text>
          </Text>
          <CountBar value={d.from} most={most} strong={false} />
        </Group>
      </div>
      {d.reasons.map((reason, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: reasons are an immutable sequence, and a code may come twice
        <Step key={index} reason={reason} most={most} last={false} />
      ))}
      <div className="ladder">
        <div className="ladder-rail" data-last>
          <span className="ladder-dot" data-binding />
        </div>
        <Group justify="space-between" wrap="nowrap">
          <Text size="sm" fw={700}>
            {t("decisions.decided")}
          </Text>
          <CountBar value={d.target} most={most} strong />
        </Group>
      </div>
    </div>
  );
}

/** The signals as the decision saw them. */
export function Inputs({ decision: d }: { decision: DecisionDetail }) {
  const { t } = useTranslation();
  const f = useFormat();
  if (d.inputs.length === 0) {
    return (
      <Text size="sm" c="dimmed" p="md">
        {t("decisions.inputsNone")}
      </Text>
    );
  }
  return (
    <Table.ScrollContainer minWidth={680}>
      <Table className="data-table" aria-label={t("decisions.inputs")}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t("decisions.inputSignal")}</Table.Th>
            <Table.Th ta="right">{t("decisions.inputRaw")}</Table.Th>
            <Table.Th ta="right">{t("decisions.inputFiltered")}</Table.Th>
            <Table.Th ta="right">{t("decisions.inputTarget")}</Table.Th>
            <Table.Th ta="right">{t("decisions.inputNeeded")}</Table.Th>
            <Table.Th ta="right">{t("decisions.inputAge")}</Table.Th>
            <Table.Th ta="right">{t("decisions.inputSamples")}</Table.Th>
            <Table.Th>{t("decisions.inputTruth")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {d.inputs.map((input, index) => {
            const show = (v: number | null) => (v === null ? "–" : signalValue(t, f, input.name, v));
            return (
              // biome-ignore lint/suspicious/noArrayIndexKey: two rules may look at one signal; the order never changes
              <Table.Tr key={index}>
                <Table.Td fw={550}>{signalName(t, input.name)}</Table.Td>
                <Table.Td ta="right">
                  <Group gap={4} justify="flex-end" wrap="nowrap">
                    {input.outlier && (
                      <Tooltip label={t("decisions.inputOutlier")}>
                        <IconAlertTriangle size={14} color="var(--mantine-color-orange-6)" />
                      </Tooltip>
                    )}
                    {show(input.raw)}
                  </Group>
                </Table.Td>
                <Table.Td ta="right">{show(input.filtered)}</Table.Td>
                <Table.Td ta="right">{input.target > 0 ? show(input.target) : "–"}</Table.Td>
                <Table.Td ta="right" fw={600}>
                  {input.needed === null ? "–" : f.integer(input.needed)}
                </Table.Td>
                <Table.Td ta="right">{f.duration(input.ageSeconds)}</Table.Td>
                <Table.Td ta="right">{f.integer(input.samples)}</Table.Td>
                <Table.Td>
                  <TruthBadge truth={input.truth} />
                </Table.Td>
              </Table.Tr>
            );
          })}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

/** The counts beside the chosen one, with what they would cost and risk. */
export function Alternatives({ decision: d }: { decision: DecisionDetail }) {
  const { t } = useTranslation();
  const f = useFormat();
  if (d.alternatives.length === 0) {
    return (
      <Text size="sm" c="dimmed" p="md">
        {t("decisions.alternativesNone")}
      </Text>
    );
  }
  const rows = [
    ...d.alternatives.map((a) => ({ ...a, chosen: false })),
    { ...chosenAlternative(d), chosen: true },
  ].sort((a, b) => a.replicas - b.replicas);
  return (
    <Table.ScrollContainer minWidth={520}>
      <Table className="data-table" aria-label={t("decisions.alternatives")}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th ta="right">{t("decisions.altReplicas")}</Table.Th>
            <Table.Th ta="right">{t("decisions.altCost")}</Table.Th>
            <Table.Th>
              <Group gap={4} wrap="nowrap">
                {t("decisions.altLoad")} <Hint text={t("decisions.altLoadHint")} />
              </Group>
            </Table.Th>
            <Table.Th>{t("decisions.altWhy")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map((a) => (
            <Table.Tr key={a.replicas} bg={a.chosen ? "var(--faint)" : undefined}>
              <Table.Td ta="right" fw={a.chosen ? 700 : 500}>
                {f.integer(a.replicas)}
              </Table.Td>
              <Table.Td ta="right">{a.costHour ? f.money(a.costHour) : "–"}</Table.Td>
              <Table.Td>
                {a.load === null ? (
                  "–"
                ) : (
                  <Group gap={8} wrap="nowrap">
                    <Progress
                      value={Math.min(100, a.load * 100)}
                      size={6}
                      w={70}
                      color={a.load > 1 ? "red" : a.load > 0.9 ? "orange" : undefined}
                      aria-hidden
                    />
                    <span>{f.percent(a.load, 0)}</span>
                  </Group>
                )}
              </Table.Td>
              <Table.Td>
                {a.chosen ? (
                  <Badge>{t("decisions.altChosen")}</Badge>
                ) : (
                  <Text size="sm">{reasonName(t, a.rejected)}</Text>
                )}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

/** What became of a decision, from what is recorded. */
export function History({ decision: d }: { decision: DecisionDetail }) {
  const { t } = useTranslation();
  const f = useFormat();
  const entries: { key: string; title: string; detail: string; at: Date | null }[] = [
    { key: "made", title: t("decisions.historyDecided"), detail: t(`outcome.${d.outcome}`), at: d.at },
  ];
  if (d.decidedAt || d.decidedBy) {
    const rejected = d.state === "rejected";
    entries.push({
      key: "decided",
      title: t(`decisionState.${rejected ? "rejected" : "approved"}`),
      detail: d.decidedBy ? t("decisions.by", { who: d.decidedBy }) : "",
      at: d.decidedAt,
    });
  }
  if (d.state === "proposed") {
    entries.push({ key: "expires", title: t("decisions.historyExpires"), detail: "", at: d.expiresAt });
  }
  if (!["noted", "proposed", "approved", "rejected"].includes(d.state)) {
    const counts =
      d.before !== null && d.after !== null
        ? t("decisions.historyApplied", { before: f.integer(d.before), after: f.integer(d.after) })
        : "";
    entries.push({
      key: "end",
      title: t(`decisionState.${d.state}`),
      detail: [counts, d.state === "applied" ? "" : d.resultCode, d.resultDetail].filter(Boolean).join(" · "),
      at: d.finishedAt,
    });
  }
  return (
    <Stack gap={0}>
      {entries.map((e, i) => (
        <div key={e.key} className="ladder">
          <div
            className="ladder-rail"
            data-first={i === 0 || undefined}
            data-last={i === entries.length - 1 || undefined}
          >
            <span className="ladder-dot" data-binding={i === entries.length - 1 || undefined} />
          </div>
          <div style={{ paddingBottom: 14 }}>
            <Text size="sm" fw={600}>
              {e.title}
            </Text>
            <Text size="sm" c="dimmed">
              {[e.at && f.dateTime(e.at), e.detail].filter(Boolean).join(" · ")}
            </Text>
          </div>
        </div>
      ))}
    </Stack>
  );
}
