"""Impersonation: requests of one user that an API server treats as another user's. Pure.

The fields are those of a kubeconfig's user entry (``as``, ``as-uid``, ``as-groups``, ``as-user-extra``) and of
kubectl's flags (``--as``, ``--as-uid``, ``--as-group``, ``--as-user-extra``). The headers are those that
client-go sends (``transport/round_trippers.go``). The API server asks its authorizer whether the user has the verb
``impersonate``.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_ENTRIES: Final = ("as", "as-uid", "as-groups", "as-user-extra")
_HEADER_CHARACTERS: Final = frozenset(f"{string.ascii_letters}{string.digits}!#$&'*+-.^_`|~")
"""Characters that stay unescaped in the name of a header. The percent sign starts an escape, so it is excluded."""


@dataclass(frozen=True, slots=True)
class Impersonation:
    """The user that requests impersonate; without a name, they impersonate none.

    Attributes:
        user: the name of a user, or ``system:serviceaccount:NAMESPACE:NAME``.
        uid: the UID of the user.
        groups: the groups of the user.
        extra: further attributes of the user, as an authenticator would add them.
    """

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether anything is set."""
        return bool(self.user or self.uid or self.groups or self.extra)

    @classmethod
    def of_entry(cls, entry: Mapping[str, Any]) -> Impersonation:
        """Return the impersonation that a user entry of a kubeconfig sets.

        Raises:
            ValueError: a field has another form; the message names the field, never its value.
        """
        groups, extra = entry.get("as-groups") or (), entry.get("as-user-extra") or {}
        if not _is_texts(groups):
            msg = "as-groups must be a list of texts"
            raise ValueError(msg)
        if not isinstance(extra, Mapping) or not all(_is_texts(values) for values in extra.values()):
            msg = "as-user-extra must be a mapping from names to lists of texts"
            raise ValueError(msg)
        if not _is_texts([entry.get("as") or "", entry.get("as-uid") or ""]):
            msg = "as and as-uid must be texts"
            raise ValueError(msg)
        attributes = {str(name): tuple(values) for name, values in extra.items()}
        return cls(entry.get("as") or "", entry.get("as-uid") or "", tuple(groups), attributes)

    @staticmethod
    def without_entries(entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return a user entry without the fields of impersonation."""
        return {name: value for name, value in entry.items() if name not in _ENTRIES}

    def over(self, other: Impersonation) -> Impersonation:
        """Return ``other`` with every field that this one sets replaced: flags win over a kubeconfig."""
        return Impersonation(
            self.user or other.user, self.uid or other.uid, self.groups or other.groups, self.extra or other.extra
        )

    def headers(self) -> tuple[tuple[str, str], ...]:
        """Return the request headers.

        Raises:
            ValueError: a UID, groups or attributes are set without a user, or a value has a control character.
        """
        if self and not self.user:
            msg = "a UID, groups or attributes are impersonated without a user: also give the user (--as, or 'as')"
            raise ValueError(msg)
        found = tuple(self._headers())
        if not all(value.isprintable() for _, value in found):
            msg = "the impersonated user has a line break or another control character in a value: remove it"
            raise ValueError(msg)
        return found

    def _headers(self) -> Iterator[tuple[str, str]]:
        if self.user:
            yield "Impersonate-User", self.user
        if self.uid:
            yield "Impersonate-Uid", self.uid
        for group in self.groups:
            yield "Impersonate-Group", group
        for name, values in self.extra.items():
            for value in values:
                yield f"Impersonate-Extra-{_escaped(name)}", value


def _is_texts(values: object) -> bool:
    return isinstance(values, (list, tuple)) and all(isinstance(each, str) for each in values)


def _escaped(name: str) -> str:
    """Percent-encode the bytes of a name that are not allowed in the name of a header."""
    return "".join(chr(byte) if chr(byte) in _HEADER_CHARACTERS else f"%{byte:02X}" for byte in name.encode())
