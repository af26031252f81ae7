# Conversions of the widgets, and the manifest of their CRD.
cat > conversions.py <<'END'
from restow.conversion import Registry

registry = Registry()
registry.kind("example.com", "Widget", hub="v1beta1").spoke("v1alpha1")(lambda: [])
END
kubectl get crd widgets.example.com -o yaml > widgets.yaml
