{{- define "agent.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "agent.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "agent.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "agent.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: plimsoll
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "agent.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "agent.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "agent.name" .) }}
{{- else -}}
{{ required "serviceAccount.name is required when serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{- define "agent.installSecret" -}}
{{ include "agent.name" . }}-enrolment
{{- end -}}

{{- /* The part of the configuration that both roles read alike. */ -}}
{{- define "agent.config.common" -}}
endpoint: {{ .Values.endpoint }}
tokenFile: /var/run/secrets/plimsoll/token
stateDir: /var/lib/plimsoll
clusterName: {{ .Values.clusterName }}
mode: {{ .Values.mode }}
uplink:
  transport: {{ .Values.transport }}
metricsAddress: ":{{ .Values.metrics.port }}"
namespaces:
  {{- toYaml .Values.namespaces | nindent 2 }}
intervals:
  {{- toYaml .Values.intervals | nindent 2 }}
spool:
  maxBytes: {{ int64 .Values.state.spoolMaxBytes }}
limits:
  {{- toYaml .Values.limits | nindent 2 }}
{{- end -}}

{{- /* A container that satisfies the restricted pod security standard. */ -}}
{{- define "agent.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "agent.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "agent.probes" -}}
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 20
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 10
{{- end -}}

{{- define "agent.mounts" -}}
- {name: config, mountPath: /etc/plimsoll, readOnly: true}
- {name: enrolment, mountPath: /var/run/secrets/plimsoll, readOnly: true}
- {name: state, mountPath: /var/lib/plimsoll}
- {name: install, mountPath: /var/lib/plimsoll/install_id, subPath: install-id, readOnly: true}
{{- if .Values.caBundle.existingConfigMap }}
- {name: ca, mountPath: /etc/plimsoll-ca, readOnly: true}
{{- end }}
{{- end -}}

{{- /* Whether the agent answers other autoscalers: "true", or nothing. */ -}}
{{- define "agent.serves" -}}
{{- if or .Values.autoscalers.expander.enabled .Values.autoscalers.keda.enabled }}true{{ end -}}
{{- end -}}

{{- /* Whether the agent moves the bounds of HPAs: "true", or nothing. */ -}}
{{- define "agent.movesBounds" -}}
{{- if and (eq .Values.autoscalers.hpa.mode "bounds") (has .Values.mode (list "approve" "enforce")) }}true{{ end -}}
{{- end -}}

{{- /* Whether the agent writes NodePools and NodeOverlays: "true", or nothing. */ -}}
{{- define "agent.steersKarpenter" -}}
{{- if and .Values.autoscalers.karpenter.enabled (has .Values.mode (list "approve" "enforce")) }}true{{ end -}}
{{- end -}}

{{- define "agent.rules.karpenter" -}}
- apiGroups: [karpenter.sh]
  resources: [nodepools, nodeoverlays]
  verbs: [get, list, create, update, patch, delete]
{{- end -}}

{{- /* Whether the agent lets machines go: "true", or nothing. */ -}}
{{- define "agent.drains" -}}
{{- if and .Values.drain.enabled (has .Values.mode (list "approve" "enforce")) }}
{{- if ne .Values.rbac.scope "cluster" }}{{ fail "drain.enabled needs rbac.scope cluster: the pods of a machine are of all namespaces" }}{{ end -}}
true{{ end -}}
{{- end -}}

{{- /* Whether the agent keeps room ready: "true", or nothing. */ -}}
{{- define "agent.keepsRoom" -}}
{{- if and .Values.warmPools.enabled (has .Values.mode (list "approve" "enforce")) }}true{{ end -}}
{{- end -}}

{{- define "agent.warmClass" -}}
{{ include "agent.name" . }}-warm
{{- end -}}

{{- define "agent.rules.warm" -}}
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, create, update, delete]
{{- end -}}

{{- /* The part of the configuration about letting go and keeping ready. */ -}}
{{- define "agent.config.gentle" -}}
{{- if include "agent.drains" . }}
drain: {enabled: true, onNotice: {{ quote .Values.drain.onNotice }}, onOthers: {{ quote .Values.drain.onOthers }}}
{{- end }}
{{- if include "agent.keepsRoom" . }}
warmPools: {enabled: true, namespace: {{ .Release.Namespace }}, priorityClass: {{ include "agent.warmClass" . }}, image: {{ quote .Values.warmPools.image }}, max: {{ .Values.warmPools.max }}}
{{- end }}
{{- end -}}

{{- define "agent.secretVolumes" -}}
- name: install
  secret:
    secretName: {{ include "agent.installSecret" . }}
    defaultMode: 0440
    items: [{key: install-id, path: install-id}]
- name: enrolment # optional: an agent that has its identity needs no token
  secret:
    secretName: {{ .Values.enrolment.existingSecret | default (include "agent.installSecret" .) }}
    defaultMode: 0440
    optional: true
    items: [{key: token, path: token}]
{{- if .Values.caBundle.existingConfigMap }}
- name: ca
  configMap: {name: {{ .Values.caBundle.existingConfigMap }}}
{{- end }}
{{- end -}}

{{- /* Go reads the directory beside the image's own certificate file. */ -}}
{{- define "agent.caEnv" -}}
{{- if .Values.caBundle.existingConfigMap }}
- {name: SSL_CERT_DIR, value: /etc/plimsoll-ca}
{{- end }}
{{- end -}}
