// Words in English: reasons of a decision.

export const reason = {
  reason: {
    target_ratio: "Target ratio",
    within_tolerance: "Within tolerance",
    queue: "Waiting work",
    latency_high: "Latency too high",
    latency_low: "Latency low",
    forecast: "Forecast",
    forecast_hold: "Hold of the forecast",
    backlog: "Backlog",
    no_forecast: "No forecast yet",
    learning: "Learning",
    relearning: "Learning again",
    collapse: "Demand collapsed",
    hint: "Expected load",
    hint_unused: "Expected load, not computable",
    largest_need: "Largest need",
    steady: "Steady",
    no_signal: "No usable signal",
    partial_signal: "Signals incomplete",
    unready_pods: "Pods not ready",
    cooldown_up: "Cooldown after scale-up",
    cooldown_down: "Cooldown after scale-down",
    stabilisation: "Stabilisation",
    step_up: "Step limit up",
    step_down: "Step limit down",
    flapping: "Flapping damped",
    long_tail: "Idle for long",
    min_replicas: "At minimum",
    max_replicas: "At maximum",
    service_min: "Part of a service",
    service_max: "Part of a service",
    budget: "Budget",
    budget_over: "Budget spent",
    budget_grace: "Past the budget",
    spend_breaker: "Spend breaker",
    budget_unknown: "Budget, price unknown",
    frozen: "Frozen",
    conflict: "Other controller",
    not_scalable: "Not scalable",
    zero_replicas: "Scaled to zero by hand",
    invalid_policy: "Policy unusable",
    smaller_is_late: "Would be late",
    larger_is_dearer: "Costs more, gains nothing",
  },
  reasonText: {
    target_ratio:
      "{{signal}} is {{value}} against a target of {{target}}, a ratio of {{ratio}}. That asks for {{toReplicas}}.",
    within_tolerance:
      "{{signal}} is {{value}} against a target of {{target}}. The ratio of {{ratio}} is within the tolerance of {{tolerance}}; the count stays at {{to}}.",
    queue: "Requests waiting: {{waiting}}. One replica shall hold {{perReplica}}. That asks for {{toReplicas}}.",
    queue_running:
      "Requests waiting: {{waiting}}; running: {{running}}. One replica shall hold {{perReplica}}. That asks for {{toReplicas}}.",
    queue_age:
      "The oldest request has waited {{age}}, more than the allowed {{maxAge}}. One replica more is asked for: {{to}}.",
    latency_high:
      "{{signal}} is {{value}}, above {{threshold}} (target {{target}}), and the load presses. A step up to {{toReplicas}} is asked for.",
    latency_low:
      "{{signal}} is {{value}}, below {{threshold}} (target {{target}}), and traffic is steady. A step down to {{toReplicas}} is enough.",
    forecast:
      "{{demand}} replicas are in use. In {{lead}}, when an order of now serves, demand stays under {{upper}} with {{quantile}} certainty: {{toReplicas}}. Late requests expected: {{expectedLate}}, the aim is {{aim}}.",
    forecast_hold:
      "Within the last {{hold}} the forecast asked for more than the {{need}} of now; holding that long pays: {{toReplicas}}.",
    backlog:
      "Waiting work of {{backlog}} replica-seconds already makes requests late (over {{lateAfter}}). {{toReplicas}} work it off in time.",
    no_forecast: "There is no fresh forecast, so nothing is scaled down. What is in flight asks for {{toReplicas}}.",
    learning:
      "In its first hour the rule learns and scales nothing down: {{toReplicas}} instead of {{neededReplicas}}.",
    relearning:
      "What was learned could not be used, and learning began anew. For an hour nothing is scaled down: {{toReplicas}} instead of {{neededReplicas}}.",
    collapse:
      "Demand fell to {{demand}} from {{median}} replicas, the last hour's median, {{since}} ago. That is more often a fault upstream than an end of traffic: of {{before}}, {{to}} are kept for now.",
    hint: "Somebody expects load that needs {{hintReplicas}} at least, until {{until}}.",
    hint_factor:
      "Somebody expects {{factor}} times the demand of before ({{usual}} replicas in use) until {{until}}: {{toReplicas}}.",
    hint_rate:
      "Somebody expects {{rate}} requests per second until {{until}}, {{demand}} replicas in use: {{toReplicas}}.",
    hint_unused: "Somebody expects load until {{until}}, but nothing is known yet to compute replicas from.",
    largest_need: "Of {{rules}} rules the one with the largest need counts: {{signal}}, {{toReplicas}}.",
    steady: "What is needed is what is there: {{toReplicas}}.",
    steady_latency: "{{signal}} is {{value}} against a target of {{target}}. That asks for no change.",
    steady_starting:
      "{{signal}} is {{value}}, above its threshold, but the last step is still starting: {{startingReplicas}}.",
    no_signal: "None of {{signals}} signals is fresh enough to decide from. The count stays at {{to}}.",
    partial_signal:
      "{{notFresh}} of {{signals}} signals are not fresh; the oldest is {{age}} old ({{signal}}). Without all of them nothing is scaled down: {{toReplicas}}.",
    unready_pods:
      "Some pods are not ready yet, and their silence is not zero demand ({{signal}}: {{value}} from {{pods}} pods). The count stays at {{to}}.",
    cooldown_up:
      "The last scale-up was {{since}} ago and the cooldown is {{cooldown}}. No further rise until {{until}}.",
    cooldown_down:
      "The last scale-down was {{since}} ago and the cooldown is {{cooldown}}. No further fall until {{until}}.",
    stabilisation:
      "Within the last {{window}} the need was as high as {{recommendationReplicas}}, so the count goes no lower than {{to}}.",
    stabilisation_up:
      "Within the last {{window}} the need was as low as {{recommendationReplicas}}, so the count goes no higher than {{to}}.",
    step_up: "One step may not go above {{limitReplicas}}.",
    step_down: "One step may not go below {{limitReplicas}}.",
    flapping:
      "The count went up, down and up again {{cycles}} times within an hour. The window before a scale-down is widened from {{base}} to {{window}}: {{toReplicas}}.",
    long_tail:
      "Nothing has waited and use was {{use}} for {{quiet}}, under {{useRatio}}. It goes to its floor of {{to}}.",
    min_replicas: "The policy's minimum is {{minReplicas}}.",
    max_replicas: "The policy's maximum is {{maxReplicas}}; {{from}} would be needed.",
    service_min: "Its part of a service that runs in several clusters is {{minReplicas}}.",
    service_max:
      "Its part of a service that runs in several clusters is {{maxReplicas}}: what stands in for the rest is ready elsewhere.",
    budget:
      "The budget allows {{allowedHour}} an hour, {{rateHour}} are in use: of the {{wanted}} replicas wanted it pays for {{to}}.",
    budget_over:
      "The budget is spent ({{remaining}} left): {{from}} replicas become {{to}}; batch gives way before economy and standard.",
    budget_grace:
      "The budget allows {{allowedHour}} an hour and {{rateHour}} are in use; gold and the policy's own floor are let through.",
    spend_breaker:
      "The plan would cost {{rateHour}} an hour, {{usualHour}} is usual and {{limitHour}} trips the breaker: nothing is raised.",
    budget_unknown:
      "Nothing is left of the budget for this hour, and what a replica costs is not known: it stays at {{to}}.",
    max_blind: "The policy's maximum is {{maxReplicas}}, but nothing is lowered while signals are not fresh.",
    frozen: "The cluster is frozen: nothing is changed. The signals ask for {{neededReplicas}}.",
    conflict:
      "Another controller writes the replica count (last seen {{age}} ago). Plimsoll yields to it; the signals ask for {{needed}}.",
    conflict_plain:
      "Another controller writes the replica count. Plimsoll yields to it; the signals ask for {{needed}}.",
    not_scalable: "This kind of workload cannot be scaled.",
    zero_replicas: "Somebody scaled it to zero. It is left alone until somebody scales it up again.",
    invalid_policy: "The policy cannot be computed with, so nothing is changed.",
    smaller_is_late: "Fewer replicas would keep requests waiting too long.",
    larger_is_dearer: "More replicas would cost more and bring nothing.",
    unknown: "{{code}}: {{numbers}}",
  },
  reasonNote: {
    runnerUp: "Next cheapest: {{runnerWant}} now, {{runnerMean}} on average, {{runnerLate}} late.",
    counterfactual:
      "Lately this rule took {{ownMean}} replicas on average with {{ownLate}} late; an HPA at 70 % would have taken {{plainMean}} with {{plainLate}} late.",
    missing: "Ready pods that gave no value: {{value}}; they are counted with caution.",
    unready: "Pods not ready: {{value}}.",
  },
};
