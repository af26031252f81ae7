"""The proof that a complete run leaves on a CRD, and for how long it holds (``what_is_proved``).

``status.storedVersions`` is no proof. The API server adds to it and lets every client trim it; the cluster's own
StorageVersionMigration trims it after a failure too. So restow trusts only what a complete run of its own has recorded:
a ``Proof``, an annotation on the CRD. It says that every object was stored at the storage version, in which generation
of which CRD, and for which options the managedFields were done.

A proof holds for a later generation only where each change in between is known to have left the storage version
alone (``what_is_proved``): the generation is the same, or it is the next one with the same storage version, since one
change cannot flip it and flip it back. Only the API server counts generations, and every change of the spec moves
them. A process that sees a CRD after each change extends the proof (``extended``). The CRD's managedFields are no
evidence of what did not happen: a client that replaces the CRD by a dump of it restores those of an earlier day.

The annotation has to be owned by restow's field manager. After a restore of etcd the same generation may come again
with another history, and the annotation of an earlier day then comes back by another manager.

A CRD with a single version needs no proof, since there is no other version at which something could be stored. Losing
the proof (``kubectl replace``, GitOps) costs one more run, which stores nothing. Pure.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import msgspec

from restow.crds import Crd
from restow.migrator.model.options import ManagedFields, Options, Phase
from restow.migrator.ownership.entries import FIELD_MANAGER

__all__ = [
    "ANNOTATION",
    "FORMAT",
    "UNFINISHED",
    "Proof",
    "Proven",
    "extended",
    "failed_prune",
    "may_be_stored",
    "nothing_due",
    "proof_of_run",
    "reencoding_due",
    "run_key",
    "touches_managed_fields",
    "what_is_proved",
]


ANNOTATION = "restow.dev/migrated"
UNFINISHED = "unfinished"
"""Prefix of the value that replaces a proof after objects failed; a number that identifies the run follows.

What another run finished at the same time says nothing of those objects.
"""


class Proof(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """What a complete run proved.

    Attributes:
        uid, generation: of the CRD when the run ended.
        storage: the storage version.
        versions: a digest of every version with its flags, and of the conversion strategy.
        objects: whether every object was stored at ``storage``; false of a run without the storage phase.
        managed_fields: the options for which the managedFields of all objects were done; empty for none.
        native_failure: when the cluster's own migration of the CRD had failed last, if it had.
        format: of this value; another one is not read.
    """

    uid: str
    generation: int
    storage: str
    versions: str
    objects: bool = False
    managed_fields: str = ""
    native_failure: str = ""
    format: int = 0

    def encode(self) -> str:
        """Return the annotation's value."""
        return _encoder.encode(self).decode()


FORMAT = 2
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Proof)


@dataclass(frozen=True, slots=True)
class Proven:
    """What is proved about the objects of a CRD as it is now.

    Attributes:
        crd: the CRD.
        proof: the proof that holds for it, or None.
        doubt: why objects may be stored at another version than the storage version, in a sentence without its full
            stop; empty where it is proved that none is.
    """

    crd: Crd
    proof: Proof | None
    doubt: str

    def managed_fields_done(self, options: Options) -> bool:
        """Whether the managedFields of all objects were done for these options and these versions.

        Entries of served versions that are found then were written by clients since, and are theirs.
        """
        proof = self.proof
        return (
            proof is not None
            and not options.ignore_mark
            and touches_managed_fields(options)
            and proof.versions == _versions(self.crd)
            and proof.managed_fields == _settings(options)
        )


def what_is_proved(crd: Crd, remembered: str = "") -> Proven:
    """Return what is proved about the objects of a CRD as it was just read.

    Args:
        crd: the CRD.
        remembered: a proof of this process that could not be left on the CRD for lack of a right.
    """
    single = len(crd.versions) == 1 and crd.stored_versions == (crd.storage.name,)
    found, doubt = _holding(crd, crd.annotations.get(ANNOTATION, ""))
    if found is not None and not _is_ours(crd):
        doubt = f"the mark of restow on {crd.name} was written there by another field manager, and proves nothing"
        found = None
    if found is None and remembered and not _unfinished(crd):
        found, _ = _holding(crd, remembered)
    if found is not None:
        doubt = _doubt_of_objects(crd, found)
    return Proven(crd, found, "" if single else doubt)


def _is_ours(crd: Crd) -> bool:
    """Whether restow's field manager owns the annotation."""
    return any(
        entry.get("manager") == FIELD_MANAGER
        and f"f:{ANNOTATION}" in (((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:annotations") or {})
        for entry in crd.managed_fields
    )


def _unfinished(crd: Crd) -> bool:
    return crd.annotations.get(ANNOTATION, "").startswith(UNFINISHED)


def _holding(crd: Crd, value: str) -> tuple[Proof | None, str]:
    """Return the proof if it holds for the CRD as it is, or else why not."""
    name = crd.name
    if not value:
        return None, f"no run of restow has proved at which version the objects of {name} are stored"
    if value.startswith(UNFINISHED):
        return None, f"the last run of restow on {name} did not finish every object"
    try:
        proof = _decoder.decode(value)
    except msgspec.MsgspecError:
        proof = None
    if proof is None or proof.format != FORMAT:
        return None, f"the mark of restow on {name} is of another release, or was edited, and proves nothing"
    if proof.uid != crd.uid:
        return None, f"{name} was deleted and created again after the run of restow that its mark is of"
    jump = crd.generation - proof.generation
    if jump < 0:
        went_back = f"went back from generation {proof.generation} to {crd.generation}"
        return None, f"{name} {went_back}, as it does when etcd is restored"
    if proof.storage != crd.storage.name:
        return None, (
            f"the storage version of {name} changed from {proof.storage} to {crd.storage.name} after the last complete "
            "run of restow"
        )
    if jump <= 1:
        return proof, ""
    return None, (
        f"{name} was changed {jump} times after the last complete run of restow (generation {proof.generation} to "
        f"{crd.generation}), and its storage version may have been another one in between"
    )


def _doubt_of_objects(crd: Crd, proof: Proof) -> str:
    failed = failed_prune(crd)
    if failed and failed != proof.native_failure:
        return (
            f"the cluster's own StorageVersionMigration of {crd.name} failed, and the API server trimmed "
            "status.storedVersions all the same"
        )
    if not proof.objects:
        return f"the last complete run of restow on {crd.name} left the storage phase out"
    return ""


def proof_of_run(start: Crd, now: Crd, options: Options) -> Proof | None:
    """Return the proof that a complete run with these options leaves; None where it may leave none.

    Only for a run that finished every object while the storage version was the same all the time (``may_prune``).
    What it left out, an earlier proof that still holds may say: so a run without a phase takes nothing away.

    Args:
        start: the CRD as it was read before the objects were listed.
        now: the CRD read just now.
        options: of the run.
    """
    if _unfinished(now) and now.annotations[ANNOTATION] != start.annotations.get(ANNOTATION):
        return None  # objects of another run failed meanwhile, which this one may have looked at before
    before = what_is_proved(now)
    unchanged = _versions(start) == _versions(now)  # objects were decided by what the versions were then
    if touches_managed_fields(options):
        done = _settings(options) if unchanged else ""
    else:
        kept = before.proof is not None and before.proof.versions == _versions(now)
        done = before.proof.managed_fields if kept and before.proof is not None else ""
    return Proof(
        uid=now.uid,
        generation=now.generation,
        storage=now.storage.name,
        versions=_versions(now),
        objects=options.does(Phase.STORAGE) or (before.proof is not None and not before.doubt),
        managed_fields=done,
        native_failure=failed_prune(now),
        format=FORMAT,
    )


def extended(proven: Proven) -> Proof | None:
    """Return a proof that holds for the CRD as it is, in words of its present generation; None where none is due.

    Each step of one generation is known by itself; a proof that is not extended is lost with the second one.
    """
    proof, crd = proven.proof, proven.crd
    if proof is None or proof.generation == crd.generation:
        return None
    done = proof.managed_fields if proof.versions == _versions(crd) else ""
    return msgspec.structs.replace(
        proof,
        generation=crd.generation,
        versions=_versions(crd),
        managed_fields=done,
    )


def may_be_stored(crd: Crd) -> tuple[str, ...]:
    """Return the versions of the CRD at which objects may be stored, in its own order."""
    if not what_is_proved(crd).doubt:
        return (crd.storage.name,)
    return tuple(version.name for version in crd.versions)


def reencoding_due(crd: Crd, options: Options) -> bool:
    """Whether every object has to be written: no proof says that it is stored at the storage version."""
    return options.does(Phase.STORAGE) and (options.ignore_mark or bool(what_is_proved(crd).doubt))


def nothing_due(crd: Crd, options: Options) -> str:
    """Return why no object has to be looked at, known from the CRD alone; an empty string where one may have to be."""
    proven = what_is_proved(crd)
    if options.ignore_mark or reencoding_due(crd, options):
        return ""
    if not touches_managed_fields(options):
        return "nothing is due: every object is proved to be stored at the storage version" if not proven.doubt else ""
    if not proven.managed_fields_done(options):
        return ""
    return "nothing is due: a complete run left its proof for these versions (--ignore-mark writes all objects anyway)"


def touches_managed_fields(options: Options) -> bool:
    """Whether a run with these options translates or strips managedFields entries."""
    return options.does(Phase.MANAGED_FIELDS) and options.managed_fields is not ManagedFields.KEEP


def run_key(crd: Crd, options: Options) -> str:
    """Return a key of what a run does: all shards of one run have the same one."""
    told = msgspec.json.encode([crd.uid, _versions(crd), _settings(options)])
    return hashlib.sha256(told).hexdigest()[:32]


def _settings(options: Options) -> str:
    if not touches_managed_fields(options):
        return "off"
    strip_served = "/strip-served" if options.strip_served else ""
    return f"{options.managed_fields}/{options.scope}{strip_served}"


def _versions(crd: Crd) -> str:
    return hashlib.sha256(msgspec.json.encode([crd.fingerprint, crd.strategy])).hexdigest()[:16]


_FAILED = ("StorageMigrating", "False", "MigrationFailed")


def failed_prune(crd: Crd) -> str:
    """Return when a StorageVersionMigration of this CRD failed last, or an empty string where the last one did not.

    Its controller prunes storedVersions all the same (``finishCRDMigration`` does not ask whether it succeeded), so
    they prove nothing then.
    """
    for each in (crd.document.get("status") or {}).get("conditions") or ():
        if (each.get("type"), each.get("status"), each.get("reason")) == _FAILED:
            return str(each.get("lastTransitionTime") or "once")
    return ""
