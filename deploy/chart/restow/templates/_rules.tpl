{{- /*
The rules are those that `restow rbac` prints; tests/deploy compares them. Each define gives a list of rules.
*/ -}}

{{- define "restow.rules.migrate" -}}
{{- range . }}
- apiGroups: [{{ regexReplaceAll "^[^.]*[.]" . "" | quote }}]
  resources: [{{ regexFind "^[^.]*" . | quote }}]
  verbs: [list, get, patch]
{{- end }}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames: {{ toJson . }}
  verbs: [get]
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions/status]
  resourceNames: {{ toJson . }}
  verbs: [patch]
{{- end -}}

{{- define "restow.rules.migrate.optional" -}}
# Optional: the proof for restow ready and later runs, and the watch that shows whether a CRD edited in mid-run was flipped.
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames: {{ toJson . }}
  verbs: [list, watch, patch]
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
  resources: [shoots, shoots/status]
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

{{- /* Of the webhook configuration that `restow serve --restore-stashes` installs, and the Service. */ -}}
{{- define "restow.rules.stashes" -}}
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations]
  resourceNames: [{{ index . 0 }}]
  verbs: [get, patch, create, list, watch]
# Optional: to remove the configuration as an earlier release named it.
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations]
  resourceNames: [{{ index . 1 }}]
  verbs: [get, delete]
{{- end -}}

{{- /* The migrator sees all CRDs. */ -}}
{{- define "restow.rules.migrator" -}}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [list, watch]
{{- end -}}

{{- define "restow.rules.proof" -}}
# Optional: the proof for restow ready and later runs.
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames: {{ toJson . }}
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

{{- define "restow.family" -}}
["cloudprofiles.core.gardener.cloud", "namespacedcloudprofiles.core.gardener.cloud", "shoots.core.gardener.cloud"]
{{- end -}}

{{- /*
A ServiceAccount, unless there is one, and what it may: (dict "of" (list $ "migration" $values) "cluster" "…rules"
"own" "…rules" "default" "…rules"), in the cluster, the release's namespace and the namespace default. All releases share
the last one, so names there say whose they are.
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
  {{- with .annotations }}
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
rules:
{{ .cluster }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ printf "%s:%s" $root.Release.Namespace $name }}
  labels:
    {{- include "restow.labels" .of | nindent 4 }}
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
rules:
{{ .own }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "restow.metadata" .of | nindent 2 }}
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
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ printf "%s:%s" $root.Release.Namespace $name | quote }}}
subjects:
- {kind: ServiceAccount, namespace: {{ $root.Release.Namespace }}, name: {{ $account }}}
{{- end }}
{{- end }}
{{- end -}}
