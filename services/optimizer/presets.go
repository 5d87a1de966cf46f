package optimizer

// Preset is a policy to start from.
type Preset struct {
	Name  string `json:"name"`
	About string `json:"about"` // one plain sentence
	YAML  string `json:"yaml"`
}

// Presets returns the policies to start from, in the order in which they are offered. Each is free of errors and warnings.
func Presets() []Preset {
	return []Preset{
		{"slo", "Serving by an objective: learns the demand and buys the least that keeps late requests under a share.", presetSLO},
		{"llm-queue", "Serving of language models: sized by requests per replica, with the time to first token as a guard.", presetLLMQueue},
		{"gpu-sm", "Models without request metrics: keeps the GPU's streaming multiprocessors busy to a target.", presetGPUSM},
		{"hpa-cpu", "What a Kubernetes HorizontalPodAutoscaler on CPU does with its default behaviour, number for number.", presetHPACPU},
		{"static", "Fixed thresholds for a service whose load is well known: CPU, narrow bounds, slow steps.", presetStatic},
		{"batch", "Queues of work that may wait: grows with the queue, goes to zero when it is empty.", presetBatch},
	}
}

const presetSLO = `# Serving by an objective. The policy learns how the demand moves while a new replica starts, and which forecast, safety margin and
# hold would have kept the objective at the least cost; it needs running_requests, queue_length and request_rate.
mode: recommend
min: 1
max: 20
slo:
  class: standard             # gold: 1 % of the requests may be late, standard 3 %, economy 10 %
  late_seconds: 5             # a request that waits longer to start is late
  requests_per_replica: 16    # served at once within the latency; measure yours
`

const presetLLMQueue = `# Language models. A replica serves about 16 requests at once within its latency; measure yours.
mode: recommend
min: 2
max: 20
queue:
  target_per_replica: 16
  include_running: true
  max_age_seconds: 10
latency:
  signal: ttft_p99_seconds
  target_seconds: 2
  high: 1.2
  low: 0.5
down:
  stabilisation_seconds: 600
  cooldown_seconds: 300
  steps:
    - {type: percent, value: 25, period_seconds: 300}
long_tail:
  quiet_seconds: 1800
  use_ratio: 0.2
`

const presetGPUSM = `# Any model: SM activity says how busy the GPU really is (GPU utilisation does not).
mode: recommend
min: 1
max: 10
target_ratio:
  - signal: gpu_sm_active_ratio
    type: utilization
    target: 0.6
down:
  stabilisation_seconds: 600
long_tail:
  quiet_seconds: 1800
  use_ratio: 0.1
`

const presetHPACPU = `# The formula and the default behaviour of a Kubernetes HPA on CPU, without the damping that Plimsoll adds.
mode: recommend
min: 1
max: 10
target_ratio:
  - signal: cpu_ratio
    type: utilization
    target: 0.7
    tolerance: 0.1
filter:
  window_seconds: -1
  outlier_mad: -1
up:
  cooldown_seconds: -1
  stabilisation_seconds: -1
  select: max
  steps:
    - {type: percent, value: 100, period_seconds: 15}
    - {type: pods, value: 4, period_seconds: 15}
down:
  cooldown_seconds: -1
  stabilisation_seconds: 300
  select: max
  steps:
    - {type: percent, value: 100, period_seconds: 15}
flap:
  cycles_per_hour: -1
`

const presetStatic = `# A service whose load is well known.
mode: recommend
min: 2
max: 6
target_ratio:
  - signal: cpu_ratio
    type: utilization
    target: 0.6
up:
  steps:
    - {type: pods, value: 1, period_seconds: 60}
down:
  steps:
    - {type: pods, value: 1, period_seconds: 300}
`

const presetBatch = `# Work that may wait: a replica takes 4 items, nothing runs when there is nothing to do.
mode: recommend
min: 0
max: 16
scale_to_zero: true
queue:
  target_per_replica: 4
  include_running: true
up:
  cooldown_seconds: 60
down:
  cooldown_seconds: 60
  stabilisation_seconds: 600
  steps:
    - {type: percent, value: 50, period_seconds: 60}
`
