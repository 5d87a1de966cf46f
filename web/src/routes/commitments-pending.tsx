import { Button, Tooltip } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import {
  type CommitmentCost,
  createCommitment,
  type Pending,
  pendingQuery,
  pricedRecord,
  stockQuery,
} from "../api/commitment-stock";
import { tell } from "../components/ask";
import { CostForm, PendingTable, pendingCsv, StockTable } from "../components/commitment-pending";
import { Panel } from "../components/page";
import { ProblemNote, useProblemText } from "../components/state";
import { download } from "../lib/csv";
import { useFormat } from "../lib/format";
import { useMay } from "./me";

/** What clouds list without its cost, and the way to add it. Nothing is shown where nothing waits. */
export function PendingPanel() {
  const { t } = useTranslation();
  const f = useFormat();
  const may = useMay("finance");
  const queries = useQueryClient();
  const problemText = useProblemText();
  const query = useQuery(pendingQuery);
  const [open, setOpen] = useState<Pending | null>(null);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const price = (p: Pending) => {
    setProblem(null);
    setOpen(p);
  };
  const save = async (p: Pending, cost: CommitmentCost) => {
    setBusy(true);
    setProblem(null);
    try {
      await createCommitment(pricedRecord(p, cost));
      tell(t("market.commitments.costAdded", { ref: p.ref }));
      for (const queryKey of [["commitments"], ["prices"], ["spot"]]) void queries.invalidateQueries({ queryKey });
      setOpen(null);
    } catch (error) {
      setProblem(problemText(error));
    } finally {
      setBusy(false);
    }
  };
  if (query.isError) return <ProblemNote error={query.error} onRetry={() => void query.refetch()} />;
  const rows = query.data ?? [];
  if (rows.length === 0) return null;
  return (
    <Panel
      flush
      title={t("market.commitments.pending")}
      hint={t("market.commitments.pendingHint")}
      actions={
        may && (
          <Tooltip label={t("market.commitments.pendingCsvHint")}>
            <Button
              size="xs"
              variant="default"
              leftSection={<IconDownload size={14} />}
              onClick={() => download("commitments-without-cost.csv", pendingCsv(rows))}
            >
              {t("market.commitments.pendingCsv")}
            </Button>
          </Tooltip>
        )
      }
    >
      <PendingTable rows={rows} onPrice={may ? price : undefined} />
      {open && (
        <CostForm
          key={open.key}
          pending={open}
          currency={f.currency}
          busy={busy}
          problem={problem}
          onClose={() => setOpen(null)}
          onSave={(cost) => void save(open, cost)}
        />
      )}
    </Panel>
  );
}

/** Machines that clouds hold; nothing is shown where they hold none. */
export function StockPanel() {
  const { t } = useTranslation();
  const query = useQuery(stockQuery);
  if (query.isError) return <ProblemNote error={query.error} onRetry={() => void query.refetch()} />;
  if (!query.data?.length) return null;
  return (
    <Panel flush title={t("market.commitments.stock")} hint={t("market.commitments.stockHint")}>
      <StockTable rows={query.data} />
    </Panel>
  );
}
