import { type QueryKey, useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { tell, tellProblem } from "../components/ask";
import { useProblemText } from "../components/state";

/** Runs a change: says what went wrong, or what was done, and asks again for what it touched. */
export function useAct() {
  const queries = useQueryClient();
  const problemText = useProblemText();
  const [busy, setBusy] = useState(false);
  const act = useCallback(
    async (work: () => Promise<void>, touches: QueryKey[], done?: string): Promise<boolean> => {
      setBusy(true);
      try {
        await work();
        if (done) tell(done);
        return true;
      } catch (error) {
        tellProblem(problemText(error));
        return false;
      } finally {
        setBusy(false);
        for (const queryKey of touches) void queries.invalidateQueries({ queryKey });
      }
    },
    [queries, problemText],
  );
  return { act, busy };
}
