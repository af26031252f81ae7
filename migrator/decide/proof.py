"""The proof that a complete run writes on a CRD, and the conditions for its validity (``what_is_proved``).

``status.storedVersions`` is not a proof. The API server adds to it and lets every client trim it; the cluster's own
StorageVersionMigration trims it after a failure too. Therefore restow trusts only the record of its own complete run: a
``Proof``, an annotation on the CRD. It says that every object was stored at the storage version, in which generation of
which CRD, and for which options the managedFields were done.

A proof is valid for a later generation only if no change in between can have changed the storage version
(``what_is_proved``): the generation is the same, or it is the next one with the same storage version, because one
change cannot flip it and flip it back. Only the API server counts generations, and every change of the spec increments
them. A process that sees a CRD after each change extends the proof (``extended``). The CRD's managedFields cannot prove
that nothing happened: a client that replaces the CRD by an old dump restores the old managedFields.

The annotation has to be owned by restow's field manager. After a restore of etcd the same generation may recur with
another history, and another manager may then restore the old annotation.

A CRD with a single version needs no proof, because objects cannot be stored at another version. The loss of a proof
(``kubectl replace``, GitOps) costs one more run, which stores nothing. Pure.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import msgspec

from restow.crds import Crd
from restow.migrator.model import watermark
from restow.migrator.model.options import ManagedFields, Options, Phase
from restow.migrator.ownership.entries import FIELD_MANAGER

ANNOTATION = "restow.dev/migrated"
UNFINISHED = "unfinished"
"""The prefix of the value that replaces a proof after objects failed; a number that identifies the run follows.

The proof of another run at the same time does not cover these objects.
"""


class Proof(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """The proof of a complete run.

    Attributes:
        uid, generation: of the CRD at the end of the run.
        storage: the storage version.
        versions: a digest of every version with its flags, and of the conversion strategy.
        objects: whether every object was stored at ``storage``; false for a run without the storage phase.
        managed_fields: the options for which the managedFields of all objects were done; empty for none.
        native_failure: the time of the last failure of the cluster's own migration of the CRD, if there was one.
        format: the format of this value; other formats are ignored.
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
    """The proved facts about the objects of the current CRD.

    Attributes:
        crd: the CRD.
        proof: the valid proof, or None.
        doubt: why objects may be stored at another version than the storage version, a sentence without its full
            stop; empty if it is proved that none is.
    """

    crd: Crd
    proof: Proof | None
    doubt: str

    def managed_fields_done(self, options: Options) -> bool:
        """Return whether the managedFields of all objects were done for these options and these versions.

        Clients wrote the present entries of served versions since, and these entries stay.
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
    """Return the proved facts about the objects of a CRD that was just read.

    Args:
        crd: the CRD.
        remembered: a proof of this process that it had no right to write on the CRD.
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
    """Return whether restow's field manager owns the annotation."""
    return any(
        entry.get("manager") == FIELD_MANAGER
        and f"f:{ANNOTATION}" in (((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:annotations") or {})
        for entry in crd.managed_fields
    )


def _unfinished(crd: Crd) -> bool:
    return crd.annotations.get(ANNOTATION, "").startswith(UNFINISHED)


def _holding(crd: Crd, value: str) -> tuple[Proof | None, str]:
    """Return the proof if it is valid for the current CRD, else the reason why not."""
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
    """Return the proof of a complete run with these options; None if it may write none.

    The run must have finished every object while the storage version never changed (``may_prune``). The result keeps
    the facts of an earlier proof that is still valid, so that a run without a phase loses none.

    Args:
        start: the CRD as read before the objects were listed.
        now: the CRD as just read.
        options: the options of the run.
    """
    if _unfinished(now) and now.annotations[ANNOTATION] != start.annotations.get(ANNOTATION):
        return None  # objects of another run failed meanwhile, which this one may have processed before
    before = what_is_proved(now)
    unchanged = _versions(start) == _versions(now)  # the decisions about objects used the versions of the start
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


def annotations_of_mark(crd: Crd, proof: Proof, *, rewritten: bool) -> dict[str, str | None]:
    """Return the annotations with which a run ends: the proof in place of the watermark and the tokens of runs.

    A CRD of one version without work gets no proof, because a run over all CRDs would mark every CRD.

    Args:
        crd: the CRD as just read.
        proof: the proof of the run.
        rewritten: whether the run rewrote an object.
    """
    annotations: dict[str, str | None] = {}
    if len(crd.versions) > 1 or rewritten or ANNOTATION in crd.annotations:
        annotations[ANNOTATION] = proof.encode()
    if proof.objects:
        annotations |= {name: None for name in (watermark.ANNOTATION, watermark.RUNS) if name in crd.annotations}
    return annotations


def extended(proven: Proven) -> Proof | None:
    """Return a valid proof, rewritten for the CRD's present generation; None if this is not needed.

    A proof survives one change of the generation; without an extension the second change makes it invalid.
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
    """Return the versions at which objects may be stored: in the CRD's own order, then those that have left it."""
    if not what_is_proved(crd).doubt:
        return (crd.storage.name,)
    return tuple(dict.fromkeys((*(version.name for version in crd.versions), *crd.stored_versions)))


def unprotected_versions(crd: Crd) -> tuple[str, ...]:
    """Return the versions at which objects may be stored, and that storedVersions does not name, in the CRD's order."""
    return tuple(version for version in may_be_stored(crd) if version not in crd.stored_versions)


def reencoding_due(crd: Crd, options: Options) -> bool:
    """Return whether every object has to be written, because no proof shows that it is at the storage version."""
    return options.does(Phase.STORAGE) and (options.ignore_mark or bool(what_is_proved(crd).doubt))


def nothing_due(crd: Crd, options: Options) -> str:
    """Return why no object needs work, as far as the CRD alone shows it; empty if one may need it."""
    proven = what_is_proved(crd)
    if options.ignore_mark or reencoding_due(crd, options):
        return ""
    if not touches_managed_fields(options):
        return "nothing is due: every object is proved to be stored at the storage version" if not proven.doubt else ""
    if not proven.managed_fields_done(options):
        return ""
    return "nothing is due: a complete run left its proof for these versions (--ignore-mark writes all objects anyway)"


def touches_managed_fields(options: Options) -> bool:
    """Return whether a run with these options translates or strips managedFields entries."""
    return options.does(Phase.MANAGED_FIELDS) and options.managed_fields is not ManagedFields.KEEP


def run_key(crd: Crd, options: Options) -> str:
    """Return a key of a run's work, which is the same for all shards of one run."""
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
    """Return when the last StorageVersionMigration of this CRD failed, or an empty string if it did not.

    Its controller prunes storedVersions after a failure too (``finishCRDMigration`` does not check for success), so
    storedVersions prove nothing then.
    """
    for each in (crd.document.get("status") or {}).get("conditions") or ():
        if (each.get("type"), each.get("status"), each.get("reason")) == _FAILED:
            return str(each.get("lastTransitionTime") or "once")
    return ""
