"""Manifests: conversion of YAML and JSON text that leaves everything else as it is.

Comments, key order, quotes, anchors, block texts, blank lines, indentation and line breaks outside of the converted
fields are kept, byte for byte; a moved or renamed field takes its comments along.

Why not ruamel.yaml's round trip: ``benchmarks/manifests.py`` makes the same edit to real manifests of up to 60 kB with
both. Of 213 files of Gardener, Cluster API and restow, 210 have a diff of only the edited lines here, and 121 with
ruamel.yaml at the best of ten settings for each file; in the others ruamel.yaml indents, breaks or quotes further
lines.

Public:

- ``convert_manifest``: converts a text, and returns the outcome of every object in it; ``Targets`` sets the versions;
- ``read``: the documents of a text (``YamlDocument``), as kubectl reads them (``restow.crds.documents`` has the fast
  loader for plain data, and ``NotYaml``: the text is neither YAML nor JSON, for instance a template);
- ``write_yaml``: writes data as YAML that kubectl reads as exactly this data;

Nothing here does I/O.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
