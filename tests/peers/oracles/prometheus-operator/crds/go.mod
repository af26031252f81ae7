// The module that has the CRDs; the types and conversions are a module of their own.
module restow/tests/peers/oracles/prometheus-operator/crds

go 1.25.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
