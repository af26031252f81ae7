"""The operator of the CloudProfile family: conversion, admission and controllers in one process.

Public: ``run``, its ``Settings``, and ``Files``, a certificate from another source. docs/operator.md describes how to
run it as ``restow operator``.
"""

from restow.operator.process import Files, Settings, run

__all__ = ["Files", "Settings", "run"]
