"""Versions: their numbers and lifecycles, charts of them, and the updates between them. Pure.

Functions that read numbers raise InvalidVersion for what is no semantic version like 1.2.3. Those that read stages
raise ValueError for an unknown classification, and InvalidTime, which is one, for what is no time of RFC 3339.
"""
