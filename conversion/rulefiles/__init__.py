"""Rules as data: ``ConversionRules`` documents, in a file or in the cluster, read, checked and printed.

    apiVersion: restow.dev/v1alpha1
    kind: ConversionRules
    metadata: {name: widgets.example.dev}
    spec:
      target: {group: example.dev, kind: Widget}
      hub: v1
      spokes:
      - version: v1alpha1
        rules:
        - rename: {spoke: spec.ttl, hub: spec.timeToLive}

A rule is an object with one field: the name of a constructor of ``restow.conversion.rules``, with the constructor's
arguments by name. Where a constructor takes a function, the document has a CEL expression
(``restow.conversion.rules.cel``).

- ``parse`` reads one decoded document, ``load`` the text of a file with the lines of its mistakes;
- ``registry_of`` makes the ``Registry`` that documents declare;
- ``dump`` prints a ``Registry`` without functions as such documents;
- ``as_data`` writes the rules of a message as data;
- ``json_schema`` is the JSON Schema of a document, for editors.
"""

from restow.conversion.rulefiles.dump import NotData, dump
from restow.conversion.rulefiles.load import LoadedRules, RuleFileError, load
from restow.conversion.rulefiles.parse import ConversionRules, parse, registry_of
from restow.conversion.rulefiles.phrase import as_data
from restow.conversion.rulefiles.vocabulary import API_VERSION, KIND, json_schema

__all__ = [
    "API_VERSION",
    "KIND",
    "ConversionRules",
    "LoadedRules",
    "NotData",
    "RuleFileError",
    "as_data",
    "dump",
    "json_schema",
    "load",
    "parse",
    "registry_of",
]
