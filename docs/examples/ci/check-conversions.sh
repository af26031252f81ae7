#!/bin/sh
# Try rule files on the live objects of many clusters: check-conversions.sh RULES CRD CONTEXT…
#
# RULES is the file with the ConversionRules, CRD the name of the CRD that they are for, each CONTEXT one of the kubeconfig.
# Nothing is written to a cluster. It ends with 1 if the rules fail in one of them, after it has tried all.
set -u
rules=$1 crd=$2
shift 2
failed=
for context in "$@"; do
  echo "== $context: does each field of the CRD, as it is there, have a rule?"
  restow check --rules "$rules" --live --context "$context" || failed="$failed $context"
  echo "== $context: does each object convert to every version and back?"
  restow roundtrip "$crd" --rules "$rules" --context "$context" || failed="$failed $context"
done
if [ -n "$failed" ]; then
  echo "$rules fails in:$failed" >&2
  exit 1
fi
