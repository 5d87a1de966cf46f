import { useTranslation } from "react-i18next";
import { approveDecision, type Decision, rejectDecision } from "../api/decisions";
import { readKey } from "../components/workload-name";
import { useAct } from "./act";

const TOUCHES = [["decisions"], ["overview"], ["workloads"]];

/** Approves or rejects a proposal and tells the outcome. */
export function useResolve() {
  const { t } = useTranslation();
  const { act, busy } = useAct();
  const workload = (d: Decision) => readKey(d.key).name;
  return {
    busy,
    approve: (d: Decision) =>
      void act(
        () => approveDecision(d.id),
        TOUCHES,
        t("approvals.approved", { workload: workload(d), target: d.target }),
      ),
    reject: (d: Decision, reason: string) =>
      void act(() => rejectDecision(d.id, reason), TOUCHES, t("approvals.rejected", { workload: workload(d) })),
  };
}
