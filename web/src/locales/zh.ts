import { alert } from "./alert.zh";
import { bills } from "./bills.zh";
import { capacity } from "./capacity.zh";
import { capacityPolicy } from "./capacity-policy.zh";
import { chart } from "./chart.zh";
import { decision } from "./decision.zh";
import type { en } from "./en";
import { finops } from "./finops.zh";
import { fleet } from "./fleet.zh";
import { group } from "./group.zh";
import { hint } from "./hint.zh";
import { karpenter } from "./karpenter.zh";
import { market } from "./market.zh";
import { reason } from "./reason.zh";
import { replay } from "./replay.zh";
import { rollout } from "./rollout.zh";
import { service } from "./service.zh";
import { settings } from "./settings.zh";
import { shell } from "./shell.zh";
import { spend } from "./spend.zh";
import { telling } from "./telling.zh";
import { term } from "./term.zh";
import { tuning } from "./tuning.zh";

export const zh: typeof en = {
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
