import { Button, Group, Modal, NumberInput, SegmentedControl, Select, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { policyQuery, presetsQuery } from "../api/policies";
import { createReplay } from "../api/replays";
import { workloadQuery } from "../api/workloads";
import { Editor } from "../components/policy-editor";
import { useAct } from "./act";
import { WorkloadSelect } from "./replay-workload-select";

const DAYS = ["1", "3", "7", "14", "28"];

/** Asks for a replay: which workload, which policy, how much of its history. */
export function ReplayForm({
  workload: given,
  onClose,
  onDone,
}: {
  workload: string | null;
  onClose: () => void;
  onDone: (id: string) => void;
}) {
  const { t } = useTranslation();
  const { act, busy } = useAct();
  const [workload, setWorkload] = useState(given);
  const [days, setDays] = useState("7");
  const [batch, setBatch] = useState<number | null>(null);
  const [document, setDocument] = useState<string | null>(null);
  const presets = useQuery(presetsQuery);
  const current = useQuery({ ...policyQuery(workload ?? ""), enabled: workload !== null });
  const known = useQuery({ ...workloadQuery(workload ?? ""), enabled: workload !== null });
  const text = document ?? current.data?.document ?? "";

  const start = async () => {
    if (!workload) return;
    let id = "";
    const done = await act(
      async () => {
        const until = known.data?.dataAt ?? new Date();
        id = (await createReplay({ workload, document: text, days: Number(days), until, batch })).id;
      },
      [["replays"]],
      t("replay.asked"),
    );
    if (done) onDone(id);
  };

  return (
    <Modal opened onClose={onClose} title={t("replay.new")} size="lg">
      <Stack>
        <WorkloadSelect
          value={workload}
          onChange={(id) => {
            setWorkload(id);
            setDocument(null);
          }}
        />
        <Select
          label={t("replay.startFrom")}
          placeholder={t("replay.inForce")}
          clearable
          data={(presets.data ?? []).map((p) => p.name)}
          onChange={(name) => setDocument(presets.data?.find((p) => p.name === name)?.document ?? null)}
        />
        <div>
          <Text size="sm" fw={500} mb={4}>
            {t("replay.policy")}
          </Text>
          <Editor value={text} onChange={setDocument} readOnly={false} findings={[]} label={t("replay.policy")} />
        </div>
        <Group align="flex-end" gap="xl">
          <div>
            <Text size="sm" fw={500} mb={4}>
              {t("replay.window")}
            </Text>
            <SegmentedControl
              value={days}
              onChange={setDays}
              data={DAYS.map((d) => ({ value: d, label: t("replay.days", { days: d }) }))}
            />
          </div>
          <NumberInput
            label={t("replay.batch")}
            description={t("replay.batchText")}
            min={1}
            max={100000}
            value={batch ?? ""}
            onChange={(v) => setBatch(typeof v === "number" ? v : null)}
          />
        </Group>
        <Text size="sm" c="dimmed">
          {t("replay.formText")}
        </Text>
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            {t("common.cancel")}
          </Button>
          <Button loading={busy} disabled={!workload || text.trim() === ""} onClick={() => void start()}>
            {t("replay.start")}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
