{{- /* The objects that go with a Deployment that serves; (list $ "webhook" $values). */ -}}
{{- define "restow.service" -}}
{{- $root := index . 0 -}}{{- $values := index . 2 -}}
{{- $name := include "restow.component" . -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "restow.metadata" . | nindent 2 }}
spec:
  selector:
    {{- include "restow.selector" . | nindent 4 }}
  ports:
  {{- if ne (index . 1) "migrator" }}
  - {name: https, port: 443, targetPort: https}
  {{- end }}
  - {name: metrics, port: 8080, targetPort: metrics}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "restow.metadata" . | nindent 2 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "restow.selector" . | nindent 6 }}
{{- if $root.Values.networkPolicy.enabled }}
---
{{ include "restow.networkPolicy" . }}
{{- end }}
{{- if eq (dig "certificate" "" $values) "cert-manager" }}
---
{{ include "restow.certificate" . }}
{{- end }}
{{- if $root.Values.monitoring.serviceMonitor.enabled }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  {{- include "restow.metadata" . | nindent 2 }}
    {{- with $root.Values.monitoring.serviceMonitor.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      {{- include "restow.selector" . | nindent 6 }}
  endpoints:
  - port: metrics
    path: /metrics
    interval: {{ $root.Values.monitoring.serviceMonitor.interval }}
{{- end }}
{{- end -}}

{{- define "restow.networkPolicy" -}}
{{- $root := index . 0 -}}{{- $values := index . 2 -}}
{{- $policy := $root.Values.networkPolicy -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "restow.metadata" . | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "restow.selector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress:
  {{- if ne (index . 1) "migrator" }}
  # NetworkPolicies cannot name API servers by labels: name where they call from.
  - ports: [{port: https, protocol: TCP}]
    {{- if $policy.apiServerCIDRs }}
    from:
    {{- range $policy.apiServerCIDRs }}
    - ipBlock: {cidr: {{ . | quote }}}
    {{- end }}
    # Migrations (a Job, an operator) ask the converter as well, and replicas try it before they wire it.
    - podSelector:
        matchLabels: {app.kubernetes.io/name: restow}
    {{- with $policy.callers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- end }}
  {{- end }}
  - ports: [{port: metrics, protocol: TCP}]
    {{- with $policy.metricsNamespaceSelector }}
    from:
    - namespaceSelector:
        {{- toYaml . | nindent 8 }}
    {{- end }}
  {{- if or (eq (dig "certificate" "" $values) "own-ca") (has (index . 1) (list "operator" "conversions" "migrator")) }}
  egress:
  - ports:
    {{- range $policy.apiServerPorts }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
  - ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
  - ports: [{port: https, protocol: TCP}]
    to:
    - podSelector:
        matchLabels: {app.kubernetes.io/name: restow}
  {{- if and (or $values.migrate (eq (index . 1) "migrator")) $policy.converterPorts }}
  # The conversion webhooks of the CRDs that it migrates; a policy looks at the pods' ports, not at the Services'.
  - ports:
    {{- range $policy.converterPorts }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
  {{- end }}
  {{- else }}
  # It only answers requests.
  egress: []
  {{- end }}
{{- end -}}

{{- /*
Without an issuer of yours: an authority that lives long, since each new one changes the CRDs' caBundle, and with it all
watch caches; leaves are renewed often.
*/ -}}
{{- define "restow.certificate" -}}
{{- $root := index . 0 -}}
{{- $name := include "restow.component" . -}}
{{- $issuer := $root.Values.certManager.issuerRef -}}
{{- if not $issuer -}}
apiVersion: cert-manager.io/v1
kind: Issuer
metadata:
  name: {{ $name }}-self-signed
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "restow.labels" . | nindent 4 }}
spec:
  selfSigned: {}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ $name }}-ca
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "restow.labels" . | nindent 4 }}
spec:
  isCA: true
  commonName: {{ $name }}-ca
  secretName: {{ $name }}-ca
  duration: 43800h
  renewBefore: 8760h
  privateKey: {algorithm: ECDSA, size: 256}
  issuerRef: {kind: Issuer, name: {{ $name }}-self-signed}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata:
  {{- include "restow.metadata" . | nindent 2 }}
spec:
  ca: {secretName: {{ $name }}-ca}
---
{{ end -}}
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  {{- include "restow.metadata" . | nindent 2 }}
spec:
  secretName: {{ include "restow.secretName" . }}
  dnsNames:
  - {{ $name }}.{{ $root.Release.Namespace }}.svc
  - {{ $name }}.{{ $root.Release.Namespace }}.svc.cluster.local
  duration: {{ $root.Values.certManager.duration }}
  renewBefore: {{ $root.Values.certManager.renewBefore }}
  privateKey: {algorithm: ECDSA, size: 256, rotationPolicy: Always}
  usages: [server auth, digital signature]
  issuerRef:
    {{- toYaml ($issuer | default (dict "kind" "Issuer" "name" $name)) | nindent 4 }}
{{- end -}}

{{- /*
By whom API servers' client certificates are signed, for admission; (list $ "webhook" $values). A ConfigMap of the chart, or
one that is there.
*/ -}}
{{- define "restow.clientCA.name" -}}
{{- (index . 2).clientCA.configMap | default (printf "%s-client-ca" (include "restow.component" .)) -}}
{{- end -}}

{{- define "restow.clientCA.given" -}}
{{- with (index . 2).clientCA }}{{ if or .pem .configMap }}yes{{ end }}{{ end -}}
{{- end -}}

{{- define "restow.clientCA.configMap" -}}
{{- $values := index . 2 -}}
{{- if and $values.clientCA.pem $values.clientCA.configMap }}
{{- fail (printf "%s.clientCA: give pem or configMap" (index . 1)) }}
{{- end }}
{{- if and $values.clientCA.names (not (include "restow.clientCA.given" .)) }}
{{- fail (printf "%s.clientCA.names: give pem or configMap too, by which the certificates are verified" (index . 1)) }}
{{- end }}
{{- if $values.clientCA.pem }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "restow.clientCA.name" . }}
  namespace: {{ (index . 0).Release.Namespace }}
  labels:
    {{- include "restow.labels" . | nindent 4 }}
data:
  ca.crt: |
    {{- $values.clientCA.pem | nindent 4 }}
{{- end }}
{{- end -}}

{{- define "restow.clientCA.arguments" -}}
{{- if include "restow.clientCA.given" . -}}
- --client-ca=/etc/restow-client-ca/ca.crt
{{- with (index . 2).clientCA }}
- --require-client-cert={{ .require }}
{{- range .names }}
- {{ printf "--client-name=%s" . | quote }}
{{- end }}
{{- end }}
{{- end -}}
{{- end -}}

{{- define "restow.clientCA.mount" -}}
{{- if include "restow.clientCA.given" . -}}
- {name: client-ca, mountPath: /etc/restow-client-ca, readOnly: true}
{{- end -}}
{{- end -}}

{{- define "restow.clientCA.volume" -}}
{{- if include "restow.clientCA.given" . -}}
- name: client-ca
  configMap: {name: {{ include "restow.clientCA.name" . }}}
{{- end -}}
{{- end -}}
