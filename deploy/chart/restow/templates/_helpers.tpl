{{- define "restow.name" -}}
{{- if contains "restow" .Release.Name -}}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}{{ printf "%s-restow" .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- /* (list $ "webhook") */ -}}
{{- define "restow.component" -}}
{{- printf "%s-%s" (include "restow.name" (index . 0)) (index . 1) -}}
{{- end -}}

{{- define "restow.selector" -}}
app.kubernetes.io/name: restow
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "restow.labels" -}}
{{- $root := index . 0 -}}
{{ include "restow.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "restow.metadata" -}}
name: {{ include "restow.component" . }}
namespace: {{ (index . 0).Release.Namespace }}
labels:
  {{- include "restow.labels" . | nindent 2 }}
{{- end -}}

{{- define "restow.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "restow.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "restow.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- /* What the Deployments of webhook and operator have in common; (list $ "webhook" $values). */ -}}
{{- define "restow.deploymentSpec" -}}
{{- $root := index . 0 -}}{{- $component := index . 1 -}}{{- $values := index . 2 -}}
replicas: {{ $values.replicas }}
revisionHistoryLimit: 3
strategy:
  rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
selector:
  matchLabels:
    {{- include "restow.selector" (list $root $component) | nindent 4 }}
{{- end -}}

{{- define "restow.podPlacement" -}}
{{- $root := index . 0 -}}{{- $component := index . 1 -}}{{- $values := index . 2 -}}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "restow.selector" (list $root $component) | nindent 12 }}
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: topology.kubernetes.io/zone
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "restow.selector" (list $root $component) | nindent 6 }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "restow.serving" -}}
ports:
- {name: https, containerPort: 9443}
- {name: metrics, containerPort: 8080}
startupProbe:
  httpGet: {path: /livez, port: metrics}
  periodSeconds: 1
  failureThreshold: 60
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 2
  failureThreshold: 1
livenessProbe:
  httpGet: {path: /livez, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 5
securityContext:
  {{- include "restow.containerSecurity" . | nindent 2 }}
{{- end -}}

{{- define "restow.secretName" -}}
{{- (index . 2).secretName | default (printf "%s-tls" (include "restow.component" .)) -}}
{{- end -}}
