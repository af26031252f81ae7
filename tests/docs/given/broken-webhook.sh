# A conversion webhook, written by hand, at port 9443, that puts a status where there is none; and the CRD that it is for.
mkdir -p certs
cat > webhook.py <<'END'
import json
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from aiohttp import web
from restow.conversion.certificates.ca.authority import Authority

GROUP = "widgets.example.dev"
RENAMED = {"v1beta1": {"label": "tag"}, "v1": {"tag": "label"}}


def converted(obj, desired):
    version = desired.rpartition("/")[2]
    known = [f"{GROUP}/{each}" for each in RENAMED]
    if obj["kind"] != "Widget" or obj["apiVersion"] not in known or desired not in known:
        raise ValueError(f"cannot convert {(obj.get('metadata') or {}).get('name')} to {desired}")
    made = {**obj, "apiVersion": desired, "metadata": obj.get("metadata") or {}}
    if isinstance(spec := obj.get("spec"), dict) and obj["apiVersion"] != desired:
        made["spec"] = {RENAMED[version].get(name, name): value for name, value in spec.items()}
    if version == "v1beta1" and "spec" not in obj and made["metadata"].get("name"):
        made.setdefault("status", {})
    return made


async def convert(request):
    try:
        review = json.loads(await request.read())
    except ValueError:
        return web.Response(status=400)
    asked = review["request"]
    try:
        objects = [converted(obj, asked["desiredAPIVersion"]) for obj in asked["objects"]]
        response = {"convertedObjects": objects, "result": {"status": "Success"}}
    except ValueError as error:
        response = {"convertedObjects": [], "result": {"status": "Failure", "message": str(error)}}
    answer = {"apiVersion": review["apiVersion"], "kind": "ConversionReview"}
    return web.json_response(answer | {"response": {"uid": asked["uid"]} | response})


now = datetime.now(UTC)
authority = Authority.create("docs", now=now, valid_for=timedelta(days=2))
leaf = authority.issue(["127.0.0.1"], now=now, valid_for=timedelta(days=1))
Path("pair.pem").write_bytes(leaf.certificate + leaf.key)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("pair.pem")
Path("ca.crt").write_bytes(authority.certificate)
application = web.Application(client_max_size=1 << 27)
application.router.add_post("/convert", convert)
web.run_app(application, host="127.0.0.1", port=9443, ssl_context=context, access_log=None, shutdown_timeout=0.1)
END
cat > widgets.yaml <<'END'
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.widgets.example.dev}
spec:
  group: widgets.example.dev
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  versions:
  - name: v1beta1
    served: true
    storage: false
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {tag: {type: string}, size: {type: integer}}}
          status: {type: object, properties: {phase: {type: string}}}
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {label: {type: string}, size: {type: integer}}}
          status: {type: object, properties: {phase: {type: string}}}
END
python webhook.py > webhook.log 2>&1 &
until python -c 'import socket; socket.create_connection(("127.0.0.1", 9443))' 2> /dev/null; do
  kill -0 $! 2> /dev/null || { cat webhook.log; exit 1; }
  sleep 0.1
done
