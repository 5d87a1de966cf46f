import { alert } from "./alert.en";
import { bills } from "./bills.en";
import { capacity } from "./capacity.en";
import { capacityPolicy } from "./capacity-policy.en";
import { chart } from "./chart.en";
import { decision } from "./decision.en";
import { finops } from "./finops.en";
import { fleet } from "./fleet.en";
import { group } from "./group.en";
import { hint } from "./hint.en";
import { karpenter } from "./karpenter.en";
import { market } from "./market.en";
import { reason } from "./reason.en";
import { replay } from "./replay.en";
import { rollout } from "./rollout.en";
import { service } from "./service.en";
import { settings } from "./settings.en";
import { shell } from "./shell.en";
import { spend } from "./spend.en";
import { telling } from "./telling.en";
import { term } from "./term.en";
import { tuning } from "./tuning.en";

// Words in English. zh.ts has the same keys, held by its type and by locales.test.ts.
export const en = {
  ...shell,
  ...term,
  ...fleet,
  ...chart,
  ...decision,
  ...reason,
  ...spend,
  ...alert,
  ...settings,
  capacity,
  capacityPolicy,
  market,
  bills,
  finops,
  telling,
  tuning,
  replay,
  rollout,
  group,
  hint,
  karpenter,
  service,
};
