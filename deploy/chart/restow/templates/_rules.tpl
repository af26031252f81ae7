{{- /*
The rules are those that `restow rbac` prints; tests/deploy compares them. Each define gives a list of rules.
*/ -}}

{{- /* Of CRDs: their names, unless one is a wildcard (*.example.com, or * for all), for which RBAC has no name. */ -}}
{{- define "restow.rules.names" -}}
{{- $names := list }}
{{- range . }}{{ if not (hasPrefix "*" .) }}{{ $names = append $names . }}{{ end }}{{ end }}
{{- if eq (len $names) (len .) }}
  resourceNames: {{ toJson . }}
{{- end }}
{{- end -}}

{{- define "restow.rules.migrate" -}}
{{- range . }}
- apiGroups: [{{ regexReplaceAll "^[^.]*[.]" . "" | quote }}]
  resources: [{{ regexFind "^[^.]*" . | quote }}]
  verbs: [list, get, patch]
{{- end }}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  {{- include "restow.rules.names" . }}
  verbs: [get]
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions/status]
  {{- include "restow.rules.names" . }}
  verbs: [patch]
{{- end -}}

{{- define "restow.rules.migrate.optional" -}}
# Optional: the watch that shows whether a CRD edited in mid-run was flipped.
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames: {{ toJson . }}
  verbs: [list, watch]
{{- end -}}

{{- /* Optional; in the namespace default, where the Service kubernetes is. */ -}}
{{- define "restow.rules.servers" -}}
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [list]
{{- end -}}

{{- define "restow.rules.shards" -}}
- apiGroups: [""]
  resources: [configmaps]
  resourceNames:
  {{- range . }}
  - {{ printf "restow-shards.%s" . }}
  {{- end }}
  verbs: [get, update]
# RBAC cannot restrict create by name.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create]
{{- end -}}

{{- /* Of CRDs. */ -}}
{{- define "restow.rules.wire" -}}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames: {{ toJson . }}
  verbs: [get, patch]
{{- end -}}

{{- define "restow.rules.wire.optional" -}}
# Optional: to notice at once what others undo.
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames: {{ toJson . }}
  verbs: [list, watch]
{{- end -}}

{{- /* A server-side apply creates by a patch, so create can be restricted by name here. */ -}}
{{- define "restow.rules.install" -}}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames: {{ toJson . }}
  verbs: [get, patch, create]
{{- end -}}

{{- define "restow.rules.elsewhere" -}}
# To see whether another API server serves the group of the CRDs.
- apiGroups: [apiregistration.k8s.io]
  resources: [apiservices]
  verbs: [list]
{{- end -}}

{{- /* Of the Service. */ -}}
{{- define "restow.rules.certificates" -}}
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ . }}, {{ . }}-ca]
  verbs: [get, update]
# RBAC cannot restrict create by name.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
{{- end -}}

{{- define "restow.rules.family" -}}
- apiGroups: [core.gardener.cloud]
  resources: [cloudprofiles, namespacedcloudprofiles]
  verbs: [get, list, watch, patch]
- apiGroups: [core.gardener.cloud]
  resources: [cloudprofiles/status, namespacedcloudprofiles/status]
  verbs: [patch]
- apiGroups: [core.gardener.cloud]
  resources: [shoots]
  verbs: [list, watch]
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end -}}

{{- define "restow.rules.events" -}}
# Optional: without it restow reports only in the log.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end -}}

{{- define "restow.rules.maintenance" -}}
- apiGroups: [core.gardener.cloud]
  resources: [shoots]
  verbs: [get, patch]
- apiGroups: [core.gardener.cloud]
  resources: [shoots/status]
  verbs: [patch]
{{- end -}}

{{- define "restow.rules.configurations" -}}
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  resourceNames: [restow-cloudprofile]
  verbs: [get, patch, create]
{{- end -}}

{{- define "restow.rules.configurations.optional" -}}
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  resourceNames: [restow-cloudprofile]
  verbs: [list, watch]
{{- end -}}

{{- /* Of the webhook configuration that `restow serve --restore-stashes` installs. */ -}}
{{- define "restow.rules.stashes" -}}
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations]
  resourceNames: [{{ . }}]
  verbs: [get, patch, create, list, watch]
{{- end -}}

{{- /* Of the webhook configuration that `restow serve --refuse-unconvertible` installs. */ -}}
{{- define "restow.rules.refusal" -}}
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingwebhookconfigurations]
  resourceNames: [{{ . }}]
  verbs: [get, patch, create, list, watch]
{{- end -}}

{{- /* Of CRDs. */ -}}
{{- define "restow.rules.unwire" -}}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [list]
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  {{- if not (has "*" .) }}
  resourceNames: {{ toJson . }}
  {{- end }}
  verbs: [get, patch]
{{- range . }}
- apiGroups: [{{ regexReplaceAll "^[^.]*[.]" . "" | quote }}]
  resources: [{{ regexFind "^[^.]*" . | quote }}]
  verbs: [list, get]
{{- end }}
# Optional: to see whether ConversionRules would wire a CRD again.
- apiGroups: [restow.dev]
  resources: [conversionrules]
  verbs: [list]
{{- end -}}

{{- /* Before the operator of rules goes: whether rules, or CRDs, need it. */ -}}
{{- define "restow.rules.conversions.unwire" -}}
- apiGroups: [restow.dev]
  resources: [conversionrules]
  verbs: [list]
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [list, get]
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingwebhookconfigurations]
  verbs: [list]
{{- end -}}

{{- /* Of the host in the names of the webhook configurations that `restow serve` installs, and whether it is the operator's. */ -}}
{{- define "restow.rules.unwire.configurations" -}}
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  verbs: [list]
# Optional: to see who calls the server before Crossplane has written it into the CRDs.
- apiGroups: [apiextensions.crossplane.io]
  resources: [compositeresourcedefinitions]
  verbs: [list]
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations]
  resourceNames: [conversion-stash.{{ index . 0 }}]
  verbs: [delete]
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingwebhookconfigurations]
  resourceNames: [refuse-unconvertible.{{ index . 0 }}]
  verbs: [delete]
{{- if index . 1 }}
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  resourceNames: [restow-cloudprofile]
  verbs: [delete]
{{- end }}
{{- end -}}

{{- /* Of the Service. */ -}}
{{- define "restow.rules.unwire.own" -}}
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ . }}, {{ . }}-ca]
  verbs: [get, delete]
# Optional: without it the Leases stay.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [list, delete]
{{- end -}}

{{- /* The migrator sees all CRDs. */ -}}
{{- define "restow.rules.migrator" -}}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [list, watch]
{{- end -}}

{{- define "restow.rules.references" -}}
# Optional: without it the condition restow.dev/NoReferences names the resources that were not looked at.
- apiGroups: ["*"]
  resources: ["*"]
  verbs: [list]
{{- end -}}

{{- define "restow.rules.proof" -}}
# The proof for restow ready and later runs.
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  {{- include "restow.rules.names" . }}
  verbs: [patch]
{{- end -}}

{{- /* Of the leases' names. */ -}}
{{- define "restow.rules.lease" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: {{ toJson . }}
  verbs: [get, update]
# RBAC cannot restrict create by name.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
{{- end -}}

{{- /* Of `restow operator --conversions`; `targets` are the CRDs that rules may be for: none if empty, all of them with "*". */ -}}
{{- define "restow.rules.conversions" -}}
{{- $all := has "*" .targets -}}
- apiGroups: [restow.dev]
  resources: [conversionrules]
  verbs: [list, watch, get, patch]
- apiGroups: [restow.dev]
  resources: [conversionrules/status]
  verbs: [patch]
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [list, watch]
{{- if .targets }}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  {{- if not $all }}
  resourceNames: {{ toJson .targets }}
  {{- end }}
  verbs: [get, patch]
{{- end }}
{{- if $all }}
# Rules may be for any kind, so every object may be rehearsed: name the CRDs in conversions.targets to narrow this.
- apiGroups: ["*"]
  resources: ["*"]
  verbs: [list]
{{- else }}
{{- range .targets }}
- apiGroups: [{{ regexReplaceAll "^[^.]*[.]" . "" | quote }}]
  resources: [{{ regexFind "^[^.]*" . | quote }}]
  verbs: [list]
{{- end }}
{{- end }}
{{- /* With "*" the step's rights include these. */ -}}
{{- if not (and $all .refuseUnconvertible) }}
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingwebhookconfigurations]
  resourceNames: [restow-conversionrules]
  verbs: [get, patch, create]
{{- end }}
{{- if .restoreStashes }}
{{ include "restow.rules.conversions.step" (list . "mutatingwebhookconfigurations" "conversion-stash") }}
{{- end }}
{{- if .refuseUnconvertible }}
{{ include "restow.rules.conversions.step" (list . "validatingwebhookconfigurations" "refuse-unconvertible") }}
{{- end }}
{{- if and .crossplane .targets }}
- apiGroups: [apiextensions.crossplane.io]
  resources: [compositeresourcedefinitions]
  {{- if not $all }}
  resourceNames: {{ toJson .targets }}
  {{- end }}
  verbs: [get, patch{{ if not .leastRights }}, list, watch{{ end }}]
{{- end }}
{{- end -}}

{{- /* Of an admission step for kinds with rules: the values, the resource of its configurations, and its name. */ -}}
{{- define "restow.rules.conversions.step" -}}
{{- $values := index . 0 -}}
{{- $step := index . 2 -}}
{{- if $values.targets }}
- apiGroups: [admissionregistration.k8s.io]
  resources: [{{ index . 1 }}]
  {{- if not (has "*" $values.targets) }}
  resourceNames:
  {{- range $values.targets }}
  - {{ printf "%s.%s" $step . }}
  {{- end }}
  {{- end }}
  verbs: [get, patch, create, delete]
{{- end }}
{{- if not $values.leastRights }}
- apiGroups: [admissionregistration.k8s.io]
  resources: [{{ index . 1 }}]
  verbs: [list, watch]
{{- end }}
{{- end -}}

{{- /* To apply the CRD of ConversionRules; if rules may be for all CRDs, the other verbs are granted on every CRD. */ -}}
{{- define "restow.rules.conversions.install" -}}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames: [conversionrules.restow.dev]
  verbs: {{ has "*" .targets | ternary (list "create") (list "get" "patch" "create") | toJson }}
{{ include "restow.rules.elsewhere" . }}
{{- end -}}

{{- define "restow.rules.conversions.optional" -}}
# Optional: to notice at once what others undo, and to report the gates as Events.
{{- if not .refuseUnconvertible }}
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingwebhookconfigurations]
  resourceNames: [restow-conversionrules]
  verbs: [list, watch]
{{- end }}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end -}}

{{- /* In the namespace of the operator: the last good rules, who declared them, and the Leases of the replicas. */ -}}
{{- define "restow.rules.revisions" -}}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [list, watch, get, create, patch, delete]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [list, patch]
{{- end -}}

{{- define "restow.rules.replicas.optional" -}}
# Optional: without it the Leases of replicas that ended stay.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [delete]
{{- end -}}

{{- define "restow.family" -}}
["cloudprofiles.core.gardener.cloud", "namespacedcloudprofiles.core.gardener.cloud", "shoots.core.gardener.cloud"]
{{- end -}}

{{- /* The annotations of what is there only while a hook runs; the hook's name is that of the event. */ -}}
{{- define "restow.hook" -}}
{{- with .hook -}}
helm.sh/hook: {{ . }}
helm.sh/hook-weight: "-1"
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}
{{- end -}}

{{- /*
A ServiceAccount, unless there is one, and what it may: (dict "of" (list $ "migration" $values) "cluster" "…rules"
"own" "…rules" "default" "…rules"), in the cluster, the release's namespace and the namespace default. All releases share
the last one, so names there say whose they are. With "hook", all of it is part of the hook of that event.
*/ -}}
{{- define "restow.account" -}}
{{- $root := index .of 0 -}}
{{- $name := include "restow.component" .of -}}
{{- $account := include "restow.accountName" .of -}}
{{- with (index .of 2).serviceAccount }}
{{- if .create -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $account }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "restow.labels" $.of | nindent 4 }}
  {{- with merge (include "restow.hook" $ | fromYaml) (.annotations | default dict) }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end }}
{{- end }}
{{- if $root.Values.rbac.create }}
{{- if .cluster }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ printf "%s:%s" $root.Release.Namespace $name }}
  labels:
    {{- include "restow.labels" .of | nindent 4 }}
  {{- with include "restow.hook" $ }}
  annotations:
    {{- . | nindent 4 }}
  {{- end }}
rules:
{{ .cluster }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ printf "%s:%s" $root.Release.Namespace $name }}
  labels:
    {{- include "restow.labels" .of | nindent 4 }}
  {{- with include "restow.hook" $ }}
  annotations:
    {{- . | nindent 4 }}
  {{- end }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ printf "%s:%s" $root.Release.Namespace $name | quote }}}
subjects:
- {kind: ServiceAccount, namespace: {{ $root.Release.Namespace }}, name: {{ $account }}}
{{- end }}
{{- if .own }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  {{- include "restow.metadata" .of | nindent 2 }}
  {{- with include "restow.hook" $ }}
  annotations:
    {{- . | nindent 4 }}
  {{- end }}
rules:
{{ .own }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "restow.metadata" .of | nindent 2 }}
  {{- with include "restow.hook" $ }}
  annotations:
    {{- . | nindent 4 }}
  {{- end }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ $name }}}
subjects:
- {kind: ServiceAccount, namespace: {{ $root.Release.Namespace }}, name: {{ $account }}}
{{- end }}
{{- if .default }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ printf "%s:%s" $root.Release.Namespace $name }}
  namespace: default
  labels:
    {{- include "restow.labels" .of | nindent 4 }}
  {{- with include "restow.hook" $ }}
  annotations:
    {{- . | nindent 4 }}
  {{- end }}
rules:
{{ .default }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ printf "%s:%s" $root.Release.Namespace $name }}
  namespace: default
  labels:
    {{- include "restow.labels" .of | nindent 4 }}
  {{- with include "restow.hook" $ }}
  annotations:
    {{- . | nindent 4 }}
  {{- end }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ printf "%s:%s" $root.Release.Namespace $name | quote }}}
subjects:
- {kind: ServiceAccount, namespace: {{ $root.Release.Namespace }}, name: {{ $account }}}
{{- end }}
{{- end }}
{{- end -}}
