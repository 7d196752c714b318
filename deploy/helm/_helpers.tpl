{{- define "gatehouse.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* A Job cannot be changed, so another one gets another name. */}}
{{- define "gatehouse.migration" -}}
{{ .Chart.AppVersion | replace "." "-" }}-{{ list .Values.image .Values.pod .Values.host .Values.secrets .Values.migrations .Values.auditService.logs .Values.tokenService.parts | toJson | sha256sum | trunc 8 }}
{{- end }}

{{- define "gatehouse.auditLogs" -}}
0{{ range .Values.auditService.logs }},{{ .number }}{{ end }}
{{- end }}

{{- /* Their versions, not their contents: a digest of a password is something to guess at. Nothing without a cluster. */}}
{{- define "gatehouse.secretVersions" -}}
{{- range .names }}{{ with lookup "v1" "Secret" $.namespace . }}{{ .metadata.name }}={{ .metadata.resourceVersion }} {{ end }}{{ end }}
{{- end }}

{{- define "gatehouse.prometheus" -}}
{{- $enabled := toString .Values.prometheus.enabled }}
{{- if or (eq $enabled "true") (and (eq $enabled "auto") (.Capabilities.APIVersions.Has "monitoring.coreos.com/v1")) }}true{{ end }}
{{- end }}
