{{- define "restow.name" -}}
{{- $name := .Values.nameOverride | default "restow" -}}
{{- $full := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- .Values.fullnameOverride | default $full | trunc 40 | trimSuffix "-" -}}
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

{{- /* The chart's own labels win: selectors need them. */ -}}
{{- define "restow.labels" -}}
{{- $root := index . 0 -}}
{{- $own := dict "app.kubernetes.io/version" $root.Chart.AppVersion "app.kubernetes.io/managed-by" $root.Release.Service -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version) -}}
{{- merge (include "restow.selector" . | fromYaml) $own ($root.Values.commonLabels | default dict) | toYaml -}}
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

{{- /* In what follows the argument is (list $ "webhook" $values), $values those of the component. */ -}}

{{- define "restow.accountName" -}}
{{- (index . 2).serviceAccount.name | default (include "restow.component" .) -}}
{{- end -}}

{{- /* The template's metadata; a fourth item of the list has further annotations. The chart's labels win: they select. */ -}}
{{- define "restow.podMetadata" -}}
{{- $values := index . 2 -}}
{{- $annotations := gt (len .) 3 | ternary (last .) dict -}}
labels:
  {{- toYaml (merge (include "restow.labels" . | fromYaml) ($values.podLabels | default dict)) | nindent 2 }}
{{- with merge $annotations ($values.podAnnotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* What all pods have in common; whether a token is mounted, its user says. */ -}}
{{- define "restow.pod" -}}
{{- $root := index . 0 -}}{{- $values := index . 2 -}}
serviceAccountName: {{ include "restow.accountName" . }}
terminationGracePeriodSeconds: 30
securityContext:
  {{- toYaml $root.Values.podSecurityContext | nindent 2 }}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* Where the values say nothing, replicas are spread over nodes and zones; empty values take that away. */ -}}
{{- define "restow.spread" -}}
{{- $values := index . 2 -}}
{{- if kindIs "invalid" $values.affinity }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "restow.selector" . | nindent 12 }}
{{- end }}
{{- if kindIs "invalid" $values.topologySpreadConstraints }}
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: topology.kubernetes.io/zone
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "restow.selector" . | nindent 6 }}
{{- end }}
{{- if $values.hostNetwork }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- end -}}

{{- /* What all containers have in common, but for their ports and arguments. */ -}}
{{- define "restow.container" -}}
{{- $root := index . 0 -}}{{- $values := index . 2 -}}
image: {{ include "restow.image" $root }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
{{- /* A pod that ended with an error says why in its status, where `kubectl describe` finds it. */}}
terminationMessagePolicy: FallbackToLogsOnError
env:
- {name: RESTOW_LOG_LEVEL, value: {{ $root.Values.logLevel }}}
- {name: RESTOW_LOG_FORMAT, value: {{ $root.Values.logFormat }}}
{{- with $values.env }}
{{ toYaml . }}
{{- end }}
resources:
  {{- toYaml $values.resources | nindent 2 }}
securityContext:
  {{- toYaml $root.Values.securityContext | nindent 2 }}
{{- end -}}

{{- /* What the Deployments of webhook and operator have in common. */ -}}
{{- define "restow.deploymentSpec" -}}
{{- $values := index . 2 -}}
{{- if not (dig "autoscaling" "enabled" false $values) -}}
replicas: {{ $values.replicas }}
{{ end -}}
revisionHistoryLimit: 3
strategy:
  {{- /* In a node's network a further pod finds no free port where each node has one already. */}}
  rollingUpdate: {maxUnavailable: {{ $values.hostNetwork | ternary 1 0 }}, maxSurge: 1}
selector:
  matchLabels:
    {{- include "restow.selector" . | nindent 4 }}
{{- end -}}

{{- define "restow.webhook.serving" -}}
ports:
- {name: https, containerPort: 9443}
{{ include "restow.probes" . }}
{{- end -}}

{{- define "restow.probes" -}}
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
{{- end -}}

{{- define "restow.secretName" -}}
{{- (index . 2).secretName | default (printf "%s-tls" (include "restow.component" .)) -}}
{{- end -}}

{{- /*
Fails where another API server serves the group of these CRDs, as Gardener's does: they would hide its objects. `helm
template` asks no cluster.
*/ -}}
{{- define "restow.crds.check" -}}
{{- $group := . }}
{{- range (lookup "apiregistration.k8s.io/v1" "APIService" "" "").items }}
{{- if and .spec.service (eq .spec.group $group) }}
{{- fail (printf "the APIService %s hands the group %s to the Service %s/%s, another API server. The CRDs would hide that server's objects, and deleted namespaces would leave them behind. Use a cluster without that server; if it is gone for good, delete the APIService" .metadata.name $group .spec.service.namespace .spec.service.name) }}
{{- end }}
{{- end }}
{{- end -}}

{{- /*
"true" if a CRD is there with the same versions, and another release or command applied it: (list $ $crd). It stays as it
is then. One with other versions is in the release, so Helm refuses it unless told to take its ownership.
*/ -}}
{{- define "restow.crds.there" -}}
{{- $release := (index . 0).Release }}
{{- $crd := index . 1 }}
{{- with lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $crd.metadata.name }}
{{- $of := .metadata.annotations | default dict }}
{{- $ours := and (eq (get $of "meta.helm.sh/release-name") $release.Name) (eq (get $of "meta.helm.sh/release-namespace") $release.Namespace) }}
{{- if and (not $ours) (eq (toJson .spec.versions) (toJson $crd.spec.versions)) }}true{{ end }}
{{- end }}
{{- end -}}
