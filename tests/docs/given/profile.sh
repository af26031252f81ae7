# A CloudProfile, as a manifest.
cat > profile.yaml <<'END'
apiVersion: core.gardener.cloud/v1beta2
kind: CloudProfile
metadata: {name: local}
spec: {kubernetes: {versions: [{version: 1.31.2, lifecycle: [{classification: supported}]}]}}
END
