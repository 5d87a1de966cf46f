{{- define "plimsoll.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "plimsoll.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "plimsoll.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "plimsoll.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "plimsoll.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "plimsoll.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "plimsoll.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "plimsoll.secretEnv" -}}
- name: {{ .key }}
  valueFrom: {secretKeyRef: {name: {{ .secret }}, key: {{ .key }}}}
{{- end -}}

{{- /* Environment of serve and worker: the service role only, never the owner's URL. */ -}}
{{- define "plimsoll.env" -}}
{{ include "plimsoll.secretEnv" (dict "secret" .Values.existingSecret "key" "PLIMSOLL_DATABASE_URL") }}
{{ include "plimsoll.secretEnv" (dict "secret" .Values.existingSecret "key" "PLIMSOLL_SECRET_KEY") }}
{{- if .Values.oldSecretKeys }}
{{ include "plimsoll.secretEnv" (dict "secret" .Values.existingSecret "key" "PLIMSOLL_SECRET_KEYS_OLD") }}
{{- end }}
- {name: PLIMSOLL_PUBLIC_URL, value: {{ .Values.publicURL | quote }}}
- {name: PLIMSOLL_LISTEN, value: ":{{ .Values.service.port }}"}
{{- with .Values.smtp }}
{{- if .host }}
- {name: PLIMSOLL_SMTP_HOST, value: {{ .host | quote }}}
{{- if .port }}
- {name: PLIMSOLL_SMTP_PORT, value: {{ .port | quote }}}
{{- end }}
- {name: PLIMSOLL_SMTP_TLS, value: {{ .tls | quote }}}
- {name: PLIMSOLL_SMTP_FROM, value: {{ .from | quote }}}
{{- if .user }}
- {name: PLIMSOLL_SMTP_USER, value: {{ .user | quote }}}
{{ include "plimsoll.secretEnv" (dict "secret" (.passwordSecret | default $.Values.existingSecret) "key" "PLIMSOLL_SMTP_PASSWORD") }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}
